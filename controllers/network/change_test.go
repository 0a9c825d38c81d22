package network_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestManyVMsJoinInFewCalls(t *testing.T) {
	const vms = 500

	synctest.Test(t, func(t *testing.T) {
		g := rig(t)

		n := resources.NewNetwork("lan")
		n.TypedSpec().Subnet = "10.7.0.0/16"
		g.Create(n)
		g.World.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "EnsureNetwork", Delay: 500 * time.Millisecond})

		for i := range vms {
			g.Create(vm(fmt.Sprintf("v-%d", i), on("lan")))
		}

		g.Pass(time.Minute)
		require.Len(t, g.Networks("a")["lan"], vms)
		require.Len(t, chaintest.List(g, resources.NewVMStatus("")), vms)
		require.Less(t, g.World.Calls()["EnsureNetwork"], int64(vms/4), "they share the calls")

		// What has converged is looked at, and not changed.
		changes := g.World.Changes()["EnsureNetwork"]
		g.Rebuild()
		g.Pass(time.Minute)
		require.Equal(t, changes, g.World.Changes()["EnsureNetwork"])

		removeAll(g)
		g.Pass(10 * time.Minute)
		requireNothingLeft(g)
	})
}

func TestInterfacesChangeUnderARunningDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)

		other := resources.NewNetwork("dmz")
		other.TypedSpec().Subnet = "10.8.0.0/24"
		g.Create(other)
		g.Create(vm("v", on("lan"), on("dmz")))
		g.Settle()

		before := config(g, "v")

		// dmz goes; the guest does not let go of its interface until it was started again.
		uuid := hypervisor.DomainUUID(chaintest.GatewayID, "v")
		require.True(t, g.World.Host("a").SetStubborn(uuid, true))
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Interfaces = v.TypedSpec().Interfaces[:1] })
		g.Pass(time.Minute)

		c := config(g, "v")
		require.True(t, c.Ready)
		require.Equal(t, before.Interfaces[:1], c.Interfaces)
		require.Equal(t, before.Interfaces[1:], c.Retiring)
		require.Contains(t, g.Networks("a"), "dmz")

		// Somebody else joins: the running guest keeps its entry, and so its address.
		g.Create(vm("w", on("dmz")))
		g.Settle()
		require.Len(t, g.Networks("a")["dmz"], 2)
		g.Delete(resources.NewVMConfig("w").Metadata())
		g.Settle()
		require.Len(t, g.Networks("a")["dmz"], 1)

		require.True(t, g.World.Host("a").SetStubborn(uuid, false))
		require.True(t, g.World.Host("a").Destroy(uuid))
		require.True(t, g.World.Host("a").Start(uuid))
		g.Pass(time.Minute)
		require.Empty(t, config(g, "v").Retiring)
		require.NotContains(t, g.Networks("a"), "dmz")
		require.Empty(t, g.World.Violations())

		removeAll(g)
		g.Settle()
		requireNothingLeft(g)
	})
}

// A guest that lets go of its interface does not keep the network until it is started again.
func TestAnInterfaceThatGoesLiveTakesItsNetworkAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan")))
		g.Settle()

		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Interfaces = nil })
		g.Pass(time.Minute)
		require.Empty(t, config(g, "v").Retiring)
		require.NotContains(t, g.Networks("a"), "lan")
		require.Empty(t, g.World.Violations())
	})
}

// The vm controller may be making a definition from what it read before: what that needs stays until the domain is of the new
// revision.
func TestANetworkStaysWhileADefinitionWithItMayBeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan")))
		g.Settle()

		// The definition of before is lost, and the next one takes its time.
		uuid := hypervisor.DomainUUID(chaintest.GatewayID, "v")
		host := g.World.Host("a")
		host.Destroy(uuid)
		host.Undefine(uuid)

		end := host.Inject(sim.Fault{Kind: sim.Stuck, Call: "DefineDomain"})
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Interfaces = nil })
		g.Pass(10 * time.Second)
		require.Contains(t, g.Networks("a"), "lan")

		end()
		g.Pass(2 * time.Minute)
		require.NotContains(t, g.Networks("a"), "lan")
		require.Empty(t, g.World.Violations())
	})
}

// The address of an interface goes over to the one in its place, at once: a host takes no address twice.
func TestAnInterfaceTakesOverAnAddressUnderARunningDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan")))
		g.Settle()

		before := config(g, "v").Interfaces[0]

		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Interfaces[0].MAC = "52:54:00:00:00:77" })
		g.Pass(time.Minute)

		c := config(g, "v")
		require.True(t, c.Ready, c.Message)
		require.Equal(t, before.Address, c.Interfaces[0].Address)
		require.Len(t, g.Networks("a")["lan"], 1)
	})
}

func TestNetworkIsMovedToAnotherSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v-1", on("lan")))
		g.Create(vm("v-2", on("lan")))
		g.Settle()

		chaintest.Edit(g, resources.NewNetwork("lan"), func(n *resources.Network) {
			n.TypedSpec().Subnet, n.TypedSpec().Range, n.TypedSpec().Domain = "10.9.0.0/24", nil, "lan.example"
		})
		g.Settle()

		addresses := map[string]bool{}
		for _, name := range []string{"v-1", "v-2"} {
			require.True(t, config(g, name).Ready)
			require.Empty(t, config(g, name).Retiring)
			addresses[config(g, name).Interfaces[0].Address] = true
		}

		require.Equal(t, map[string]bool{"10.9.0.2": true, "10.9.0.3": true}, addresses)
		require.Len(t, g.Networks("a")["lan"], 2)
	})
}

func TestMoveKeepsMACAndAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("b", resources.Capacity{CPUs: 100, Memory: resources.TiB})
		lan(g, "lan", 10)
		g.Create(vm("first", on("lan")))
		g.Settle()
		g.Create(vm("v", on("lan")))
		g.Settle()

		before := config(g, "v")
		require.Equal(t, "a", before.Host)

		g.Delete(resources.NewVMConfig("first").Metadata()) // a lower address is free
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Placement.Host = "b" })
		g.Settle()

		after := config(g, "v")
		require.Equal(t, "b", after.Host)
		require.True(t, after.Ready)
		require.Equal(t, before.Interfaces, after.Interfaces)
		require.Empty(t, g.Networks("a"))
		require.Len(t, g.Networks("b")["lan"], 1)
		require.Equal(t, []string{"b"}, chaintest.Get(g, resources.NewNetworkStatus("lan")).TypedSpec().Hosts)
	})
}

func TestUnreachableHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan")))
		g.Settle()

		g.Disconnect("a")
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Description = "changed" })
		g.Pass(time.Minute)
		require.True(t, config(g, "v").Ready, "what was ready stays so while nobody knows better")

		// Without a domain that waits, the cleanup is the network's.
		g.Delete(resources.NewVMConfig("v").Metadata())
		g.Settle()
		require.NoError(t, g.State().RemoveFinalizer(t.Context(), resources.NewNetworkConfig("v").Metadata(), resources.ControllerVM))
		g.Pass(time.Hour)
		require.Equal(t, resources.ReasonHostUnreachable, config(g, "v").Reason)

		g.Connect("a", resources.Capacity{})
		g.Pass(2 * time.Second)
		require.Nil(t, chaintest.Get(g, resources.NewNetworkConfig("v")))
		require.Empty(t, g.Networks("a"))
	})
}

func TestNetworkThatWasRemovedBehindOurBack(t *testing.T) {
	for name, look := range map[string]func(*chaintest.Rig){
		"is made again when somebody asks for its VM": func(g *chaintest.Rig) {
			r := resources.NewResync("sync.vm.v")
			r.TypedSpec().Target = &resources.Target{Kind: "VM", Name: "v"}
			g.Create(r)
		},
		"is made again when an event names its VM": func(g *chaintest.Rig) {
			e := resources.NewWebhookEvent("event-1")
			e.TypedSpec().Event.ID = "event-1"
			e.TypedSpec().Event.Target = &resources.Target{Kind: "VM", Name: "v"}
			g.Create(e)
		},
		"is made again by the slow resync": func(g *chaintest.Rig) {
			g.Pass(time.Minute)

			r := resources.NewResync("slice-0")
			r.TypedSpec().Slices = 1
			g.Create(r)
		},
		"is made again when the host comes back": func(g *chaintest.Rig) {
			g.Disconnect("a")
			g.Settle()
			g.Connect("a", resources.Capacity{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				lan(g, "lan", 10)
				g.Create(vm("v", on("lan")))
				g.Settle()

				require.True(t, g.World.Host("a").DropNetwork("lan"))
				look(g)
				g.Settle()
				require.Len(t, g.Networks("a")["lan"], 1)
			})
		})
	}
}

func TestHangingHostDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("b", resources.Capacity{CPUs: 100, Memory: resources.TiB})
		lan(g, "lan", 100)
		g.Settle()
		g.World.Host("a").Inject(sim.Fault{Kind: sim.Hang, Call: "EnsureNetwork"})

		pinned := func(name, host string) *resources.VMConfig {
			v := vm(name, on("lan"))
			v.TypedSpec().Placement.Host = host

			return v
		}

		for i := range 60 {
			g.Create(pinned(fmt.Sprintf("stuck-%d", i), "a"))
		}

		g.Create(pinned("early", "b"))
		g.Pass(hypervisor.Patience + time.Millisecond)
		require.True(t, config(g, "early").Ready)

		g.Pass(5 * time.Second)

		for i := range 20 {
			g.Create(pinned(fmt.Sprintf("v-%d", i), "b"))
			g.Pass(time.Millisecond)
			require.True(t, config(g, fmt.Sprintf("v-%d", i)).Ready)
			g.Pass(99 * time.Millisecond)
		}
	})
}

func TestAnOverrideOfInterfacesHasItsNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan")))
		g.Settle()

		o := resources.NewOverride("v")
		o.TypedSpec().Patch = resources.JSON(`{"interfaces":[{"network":"lan","address":"10.7.0.105"}]}`)
		g.Create(o)
		g.Settle()
		require.Equal(t, "10.7.0.105", config(g, "v").Interfaces[0].Address)

		g.Rebuild()
		g.Create(vm("w", resources.Interface{Network: "lan", Address: "10.7.0.105"}))
		g.Settle()
		require.Equal(t, resources.ReasonAddressInUse, config(g, "w").Reason)

		require.NoError(t, g.State().Destroy(t.Context(), o.Metadata()))

		removeAll(g)
		g.Pass(10 * time.Minute)
		requireNothingLeft(g)
	})
}
