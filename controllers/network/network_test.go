package network_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

func TestVMGetsMACAndAddressBeforeItsDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("v", on("lan"), resources.Interface{Network: "lan", MAC: "52:54:00:00:00:01", Address: "10.7.0.10"}))
		g.Settle()

		c := config(g, "v")
		require.True(t, c.Ready)
		require.Equal(t, resources.ReasonNetworkReady, c.Reason)
		require.Equal(t, []resources.NetworkBinding{
			{Network: "lan", MAC: hypervisor.MAC(chaintest.GatewayID, "v", 0, 0), Address: "10.7.0.100", LibvirtNetwork: "lan", Ours: true},
			{Network: "lan", MAC: "52:54:00:00:00:01", Address: "10.7.0.10", LibvirtNetwork: "lan", Ours: true},
		}, c.Interfaces)
		require.Equal(t, map[string][]string{"lan": {
			c.Interfaces[1].MAC + "=10.7.0.10", c.Interfaces[0].MAC + "=10.7.0.100",
		}}, g.Networks("a"))
		require.Equal(t, resources.StateRunning, chaintest.Get(g, resources.NewVMStatus("v")).TypedSpec().State)

		status := chaintest.Get(g, resources.NewNetworkStatus("lan")).TypedSpec()
		require.Equal(t, []string{"a"}, status.Hosts)
		require.Equal(t, resources.ConditionTrue, resources.FindCondition(status.Conditions, resources.ConditionReady).Status)

		entries, err := g.Store.Journal().Query(context.Background(), store.Query{Classes: []store.Class{store.ClassHypervisor}})
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, "Network/lan", entries[0].Object)

		removeAll(g)
		g.Settle()
		requireNothingLeft(g)
	})
}

func TestVMWithoutInterfacesTouchesNoHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.Create(vm("v"))
		g.Settle()

		c := config(g, "v")
		require.True(t, c.Ready)
		require.Equal(t, resources.ReasonNotNeeded, c.Reason)
		require.Zero(t, g.World.Calls()["EnsureNetwork"])

		removeAll(g)
		g.Settle()
		require.Zero(t, g.World.Calls()["RemoveNetwork"])
		requireNothingLeft(g)
	})
}

func TestOtherModes(t *testing.T) {
	for name, test := range map[string]struct {
		spec    resources.NetworkSpec
		there   *hypervisor.Network
		binding resources.NetworkBinding
		reason  string
	}{
		"a bridge is used as it is": {
			spec:    resources.NetworkSpec{Mode: resources.NetworkBridge, Bridge: "br0"},
			binding: resources.NetworkBinding{Network: "lan", Bridge: "br0"},
		},
		"an existing network is used and not changed": {
			spec:    resources.NetworkSpec{Mode: resources.NetworkExisting},
			there:   &hypervisor.Network{Name: "lan", UUID: "8c2b7d0e-0000-4000-8000-000000000001", Active: true},
			binding: resources.NetworkBinding{Network: "lan", LibvirtNetwork: "lan"},
		},
		"an existing network may have another name on the host": {
			spec:    resources.NetworkSpec{Mode: resources.NetworkExisting, Network: "Office Net"},
			there:   &hypervisor.Network{Name: "Office Net", UUID: "8c2b7d0e-0000-4000-8000-000000000001", Active: true},
			binding: resources.NetworkBinding{Network: "lan", LibvirtNetwork: "Office Net"},
		},
		"an existing network has to exist": {
			spec: resources.NetworkSpec{Mode: resources.NetworkExisting}, reason: resources.ReasonNetworkMissing,
			binding: resources.NetworkBinding{Network: "lan", LibvirtNetwork: "lan"},
		},
		"a name that somebody else uses is not taken over": {
			spec:   resources.NetworkSpec{Mode: resources.NetworkNAT, Subnet: "10.7.0.0/24"},
			there:  &hypervisor.Network{Name: "lan", UUID: "8c2b7d0e-0000-4000-8000-000000000001", Active: true},
			reason: resources.ReasonNameTaken, binding: resources.NetworkBinding{Network: "lan", LibvirtNetwork: "lan", Ours: true, Address: "10.7.0.2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)

				if test.there != nil {
					require.NoError(t, g.World.Host("a").AddNetwork(*test.there))
				}

				n := resources.NewNetwork("lan")
				*n.TypedSpec() = test.spec
				g.Create(n)
				g.Create(vm("v", on("lan")))
				g.Settle()

				c := config(g, "v")
				test.binding.MAC = hypervisor.MAC(chaintest.GatewayID, "v", 0, 0)
				require.Equal(t, []resources.NetworkBinding{test.binding}, c.Interfaces)
				require.Equal(t, test.reason == "", c.Ready, c.Message)

				if test.reason != "" {
					require.Equal(t, test.reason, c.Reason)
				}

				removeAll(g)
				g.Pass(time.Minute)
				require.Empty(t, g.Left())
				require.Equal(t, test.there != nil, test.there != nil && g.Networks("a")[test.there.Name] != nil)
			})
		})
	}
}

func TestCaseV40MACOfAnotherVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)

		mac := resources.Interface{Network: "lan", MAC: "52:54:00:00:00:01"}
		g.Create(vm("first", mac))
		g.Settle()
		g.Create(vm("second", mac))
		g.Settle()

		c := config(g, "second")
		require.False(t, c.Ready)
		require.Equal(t, resources.ReasonMACInUse, c.Reason)
		require.Equal(t, "MAC 52:54:00:00:00:01 is that of VM first", c.Message)

		g.Delete(resources.NewVMConfig("first").Metadata())
		g.Settle()
		require.True(t, config(g, "second").Ready)
	})
}

func TestAddressOfAnotherVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)

		address := resources.Interface{Network: "lan", Address: "10.7.0.20"}
		g.Create(vm("first", address))
		g.Settle()
		g.Create(vm("second", address))
		g.Create(vm("wrong", resources.Interface{Network: "lan", Address: "10.8.0.20"}))
		g.Create(vm("host", resources.Interface{Network: "lan", Address: "10.7.0.1"}))
		g.Settle()

		require.Equal(t, resources.ReasonAddressInUse, config(g, "second").Reason)
		require.Equal(t, "address 10.7.0.20 on network lan is that of VM first", config(g, "second").Message)
		require.Equal(t, resources.ReasonInvalid, config(g, "wrong").Reason)
		require.Equal(t, resources.ReasonInvalid, config(g, "host").Reason)

		g.Delete(resources.NewVMConfig("first").Metadata())
		g.Settle()
		require.True(t, config(g, "second").Ready)
	})
}

func TestCaseV41ExhaustedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 2)

		for i := range 3 {
			g.Create(vm(fmt.Sprintf("v-%d", i), on("lan")))
			g.Settle()
		}

		c := config(g, "v-2")
		require.Equal(t, resources.ReasonAddressExhausted, c.Reason)
		require.Equal(t, "network lan has no free address between 10.7.0.100 and 10.7.0.101", c.Message)

		g.Delete(resources.NewVMConfig("v-0").Metadata())
		g.Settle()

		c = config(g, "v-2")
		require.True(t, c.Ready, "a freed address unblocks without an edit")
		require.Equal(t, "10.7.0.100", c.Interfaces[0].Address)

		// A larger range unblocks as well.
		g.Create(vm("v-3", on("lan")))
		g.Settle()
		require.Equal(t, resources.ReasonAddressExhausted, config(g, "v-3").Reason)
		chaintest.Edit(g, resources.NewNetwork("lan"), func(n *resources.Network) { n.TypedSpec().Range[1] = "10.7.0.150" })
		g.Settle()
		require.True(t, config(g, "v-3").Ready)
	})
}

func TestCaseV42OldEntryIsGoneBeforeItsAddressIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 1)
		g.Create(vm("keeper", resources.Interface{Network: "lan", Address: "10.7.0.9"}))
		g.Create(vm("old", on("lan")))
		g.Settle()

		// The host does not answer: the entry can't be taken off.
		mend := g.World.Host("a").Inject(sim.Fault{Kind: sim.Hang, Call: "EnsureNetwork"})
		g.Delete(resources.NewVMConfig("old").Metadata())
		g.Create(vm("new", on("lan")))
		g.Pass(3 * time.Minute)
		require.Equal(t, resources.ReasonAddressExhausted, config(g, "new").Reason)
		require.Equal(t, resources.ReasonHostUnreachable, config(g, "old").Reason)

		mend()
		g.Pass(3 * time.Minute)
		require.True(t, config(g, "new").Ready)
		require.Equal(t, "10.7.0.100", config(g, "new").Interfaces[0].Address)
		require.Len(t, g.Networks("a")["lan"], 2)
		require.Nil(t, chaintest.Get(g, resources.NewVMConfig("old")))
	})
}

func TestCaseV43NetworkStaysUntilItsLastUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 10)
		g.Create(vm("first", on("lan")))
		g.Create(vm("second", on("lan")))
		g.Settle()
		require.Len(t, g.Networks("a")["lan"], 2)

		g.Delete(resources.NewVMConfig("first").Metadata())
		g.Settle()
		require.Len(t, g.Networks("a")["lan"], 1)
		require.Equal(t, []string{"a"}, chaintest.Get(g, resources.NewNetworkStatus("lan")).TypedSpec().Hosts)

		g.Delete(resources.NewVMConfig("second").Metadata())
		g.Settle()
		require.Empty(t, g.Networks("a"))
		require.Empty(t, chaintest.Get(g, resources.NewNetworkStatus("lan")).TypedSpec().Hosts)

		removeAll(g)
		g.Settle()
		requireNothingLeft(g)
	})
}

func TestCaseV44NothingIsLeftOfAFailedStart(t *testing.T) {
	for _, call := range []string{"EnsureNetwork", "StartDomain", "DefineDomain"} {
		for kind, name := range map[sim.FaultKind]string{sim.FailBefore: "without effect", sim.FailAfter: "with effect"} {
			t.Run(call+" fails "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := rig(t)
					lan(g, "lan", 10)
					g.World.Host("a").Inject(sim.Fault{Kind: kind, Call: call})
					g.Create(vm("v", on("lan")))
					g.Pass(10 * time.Second)
					require.Nil(t, chaintest.Get(g, resources.NewVMStatus("v")))

					removeAll(g)
					g.Pass(5 * time.Minute)
					requireNothingLeft(g)
				})
			})
		}
	}
}

func TestCaseV45EntriesDoNotRestartTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 50)

		for i := range 20 {
			g.Create(vm(fmt.Sprintf("v-%d", i), on("lan")))
			g.Settle()
		}

		chaintest.Edit(g, resources.NewVMConfig("v-1"), func(v *resources.VMConfig) { v.TypedSpec().Interfaces[0].Address = "10.7.0.20" })
		g.Delete(resources.NewVMConfig("v-2").Metadata())
		g.Settle()

		require.Len(t, g.Networks("a")["lan"], 19)
		require.Equal(t, "10.7.0.20", config(g, "v-1").Interfaces[0].Address)
		require.Empty(t, config(g, "v-1").Retiring)
		require.Equal(t, 1, g.World.Host("a").NetworkStarts("lan"))
	})
}
