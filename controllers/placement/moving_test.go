package placement_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// another puts or takes a finalizer as the controllers do that come after placement in the chain.
func another(g *chaintest.Rig, name string, on bool) {
	g.T.Helper()

	change := g.State().AddFinalizer
	if !on {
		change = g.State().RemoveFinalizer
	}

	require.NoError(g.T, change(context.Background(), resources.NewVMPlacement(name).Metadata(), resources.ControllerNetwork))
}

func disks(v *resources.VMConfig) {
	v.TypedSpec().Disks = []resources.Disk{{Name: "root", Size: resources.GiB, OnDelete: resources.OnDeleteKeep}}
}

func TestMoveWaitsUntilTheOldHostHasConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(4, 8*resources.GiB))
		g.AddHost("b", capacity(4, 8*resources.GiB))
		g.Create(vm("v", 4, resources.GiB, rules(resources.Placement{Host: "a"})))
		g.Settle()
		another(g, "v", true)

		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Placement.Host = "b" })
		g.Settle()

		p := chaintest.Get(g, resources.NewVMPlacement("v"))
		require.Equal(t, resource.PhaseTearingDown, p.Metadata().Phase())
		require.Equal(t, "a", p.TypedSpec().Host)
		require.Equal(t, resources.ReasonMoving, p.TypedSpec().Reason)
		require.Equal(t, "from host a, which is not host b, to host b", p.TypedSpec().Message)

		// Both ends of the way are taken meanwhile.
		g.Create(vm("x", 4, resources.GiB))
		g.Settle()
		require.Equal(t, "host a: 0 of 4 CPUs free, 4 needed; host b: 0 of 4 CPUs free, 4 needed", where(g, "x").Message)

		another(g, "v", false)
		g.Settle()
		require.Equal(t, "b", where(g, "v").Host)
		require.Equal(t, "a", where(g, "x").Host)
	})
}

func TestLeaving(t *testing.T) {
	drain := func(g *chaintest.Rig) {
		chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.TypedSpec().Drain = true })
	}

	for name, test := range map[string]struct {
		vm      *resources.VMConfig
		prepare func(*chaintest.Rig)
		why     func(*chaintest.Rig)
		host    string
		message string
	}{
		"a drained host gives its VM to another": {vm: vm("v", 1, resources.GiB), why: drain, host: "b"},
		"a VM with disks stays on a drained host": {
			vm: vm("v", 1, resources.GiB, disks), why: drain, host: "a",
			message: "stays on host a, which is being drained: its disks are there",
		},
		"a VM stays on a drained host when it fits nowhere else": {
			vm: vm("v", 7, resources.GiB), why: drain, host: "a",
			message: "stays on host a, which is being drained: host b: 4 of 4 CPUs free, 7 needed",
		},
		"a pinned VM stays on a drained host": {vm: vm("v", 1, resources.GiB, rules(resources.Placement{Host: "a"})), why: drain, host: "a"},
		"nothing leaves a host that is away": {
			vm: vm("v", 1, resources.GiB), host: "a",
			why:     func(g *chaintest.Rig) { g.Disconnect("a"); drain(g) },
			message: "stays on host a, which is being drained: it is not connected, so nothing can be taken away from it",
		},
		"a host that comes back gives what it has to give": {
			vm: vm("v", 1, resources.GiB), host: "b",
			why: func(g *chaintest.Rig) {
				g.Disconnect("a")
				drain(g)
				g.Settle()
				g.Connect("a", resources.Capacity{})
			},
		},
		"a host that loses a label loses the VMs that ask for it": {
			vm: vm("v", 1, resources.GiB, rules(resources.Placement{Selector: map[string]string{"disk": "fast"}})), host: "b",
			why: func(g *chaintest.Rig) {
				chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.Metadata().Labels().Delete("disk") })
			},
		},
		"a pin to a full host leaves the VM where it is": {
			vm: vm("v", 1, resources.GiB), host: "a",
			prepare: func(g *chaintest.Rig) { g.Create(vm("x", 4, resources.GiB, rules(resources.Placement{Host: "b"}))) },
			why: func(g *chaintest.Rig) {
				chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Placement.Host = "b" })
			},
			message: "stays on host a, which is not host b: host b: 0 of 4 CPUs free, 1 needed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				fast := func(h *resources.Host) { h.Metadata().Labels().Set("disk", "fast") }
				g.AddHost("a", capacity(8, 64*resources.GiB), fast)
				g.AddHost("b", capacity(4, 8*resources.GiB), fast)

				if test.prepare != nil {
					test.prepare(g)
				}

				g.Settle() // both hosts are known
				g.Create(test.vm.DeepCopy())
				g.Settle()
				require.Equal(t, "a", where(g, "v").Host)

				test.why(g)
				g.Settle()

				p := where(g, "v")
				require.Equal(t, test.host, p.Host)
				require.Equal(t, test.message, p.Message)
			})
		})
	}
}

func TestDrainGoesOnWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.AddHost("b", capacity(4, 8*resources.GiB))
		g.Create(vm("x", 4, resources.GiB, rules(resources.Placement{Host: "b"})))
		g.Create(vm("v", 4, resources.GiB))
		g.Settle()

		chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.TypedSpec().Drain = true })
		g.Settle()
		require.Equal(t, "a", where(g, "v").Host)

		g.Delete(resources.NewVMConfig("x").Metadata())
		g.Settle()
		require.Equal(t, "b", where(g, "v").Host)
	})
}

// own is a domain of a VM of this gateway.
func own(name string) hypervisor.Domain {
	return hypervisor.Domain{
		Name: name, UUID: hypervisor.DomainUUID(chaintest.GatewayID, name), Gateway: chaintest.GatewayID, VM: name, State: resources.StateRunning,
	}
}

func TestFirstPlacementAsksEveryHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		require.NoError(t, g.World.Host("b").AddDomain(own("known")))

		bare := own("bare")
		bare.Gateway, bare.VM = "", ""
		require.NoError(t, g.World.Host("b").AddDomain(bare))

		g.AddHost("a", capacity(1000, 64*resources.GiB))
		g.AddHost("b", capacity(1, resources.GiB))
		g.Settle()

		before := g.World.Calls()["Domains"]

		for i := range 50 {
			g.Create(vm(fmt.Sprintf("v-%d", i), 1, 16*resources.MiB, rules(resources.Placement{Host: "a"})))
		}

		g.Create(vm("known", 4, 2*resources.GiB))
		g.Create(vm("bare", 4, 2*resources.GiB))
		g.Settle()

		require.Equal(t, "b", where(g, "known").Host, "the domain is there, whatever fits")
		require.Equal(t, "b", where(g, "bare").Host)
		require.LessOrEqual(t, g.World.Calls()["Domains"]-before, int64(2), "one call for each host, not for each VM")
	})
}

func TestHostThatHasNotAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*chaintest.Rig)
		reason  string
	}{
		"one that was connected before this process blocks": {
			prepare: func(g *chaintest.Rig) {
				g.AddHost("b", capacity(8, resources.GiB))
				g.Disconnect("b")
			},
			reason: resources.ReasonHostUnreachable,
		},
		"one that is being connected for the first time blocks": {
			prepare: func(g *chaintest.Rig) { g.Create(resources.NewHost("b")) }, reason: resources.ReasonPending,
		},
		"one that hangs blocks": {
			prepare: func(g *chaintest.Rig) {
				g.World.Host("b").Inject(sim.Fault{Kind: sim.Hang, Call: "Domains"})
				g.AddHost("b", capacity(8, resources.GiB))
			},
			reason: resources.ReasonPending,
		},
		"one that could never be connected does not block": {
			prepare: func(g *chaintest.Rig) {
				g.Create(resources.NewHost("b"))
				g.Fail("b")
			},
		},
		"one that answered and went away does not block": {
			prepare: func(g *chaintest.Rig) {
				g.AddHost("b", capacity(8, resources.GiB))
				g.Create(vm("first", 1, resources.MiB*16))
				g.Settle()
				g.Disconnect("b")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				test.prepare(g)
				g.AddHost("a", capacity(8, 64*resources.GiB))
				g.Settle()
				g.Create(vm("v", 1, resources.GiB))
				g.Pass(10 * time.Second)

				p := where(g, "v")
				if test.reason == "" {
					require.Equal(t, "a", p.Host)

					return
				}

				require.Empty(t, p.Host)
				require.Equal(t, test.reason, p.Reason)
				require.Contains(t, p.Message, "host b")

				// Its document is taken away.
				g.Delete(resources.NewHost("b").Metadata())
				g.Pass(10 * time.Second)
				require.Equal(t, "a", where(g, "v").Host)
			})
		})
	}
}

func TestMovedVMIsNotPlacedBackByAnOldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.Create(vm("v", 1, resources.GiB))
		g.Settle()
		require.NoError(t, g.World.Host("a").AddDomain(own("v")))

		// The host is asked anew while the domain is there.
		g.Disconnect("a")
		g.Connect("a", resources.Capacity{})
		g.AddHost("b", capacity(8, 64*resources.GiB))
		g.Settle()
		g.Create(vm("other", 1, resources.GiB))
		g.Settle()

		require.True(t, g.World.Host("a").Destroy(own("v").UUID))
		require.True(t, g.World.Host("a").Undefine(own("v").UUID))
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Placement.Host = "b" })
		g.Settle()
		require.Equal(t, "b", where(g, "v").Host)
	})
}

func TestManyVMsArePlacedFast(t *testing.T) {
	const hosts, vms = 20, 5000

	synctest.Test(t, func(t *testing.T) {
		g := rig(t)

		for i := range hosts {
			g.AddHost(fmt.Sprintf("h-%02d", i), capacity(vms/hosts, 64*resources.GiB))
		}

		g.Settle()

		for i := range vms + 100 {
			g.Create(vm(fmt.Sprintf("v-%d", i), 1, 16*resources.MiB))

			if i%500 == 499 {
				g.Settle() // intake is paced
			}
		}

		g.Settle()

		perHost := map[string]int{}
		for _, p := range chaintest.List(g, resources.NewVMPlacement("")) {
			perHost[p.TypedSpec().Host]++
		}

		require.Equal(t, 100, perHost[""])
		require.Len(t, perHost, hosts+1)

		for i := range hosts {
			require.Equal(t, vms/hosts, perHost[fmt.Sprintf("h-%02d", i)])
		}
	})
}

// What a host has that answered before and hangs since it came back is not waited for: it can have no domain of a new VM.
func TestAHostThatHangsWhenItComesBackDelaysNoPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(800, 640*resources.GiB))
		g.AddHost("b", capacity(8, resources.GiB))
		g.Create(vm("first", 1, resources.GiB))
		g.Settle()

		g.Disconnect("b")
		g.World.Host("b").Inject(sim.Fault{Kind: sim.Hang, Call: "Domains"})
		g.Connect("b", capacity(8, resources.GiB))

		for i := range 40 {
			name := fmt.Sprintf("v-%d", i)
			g.Create(vm(name, 1, resources.GiB, rules(resources.Placement{Host: "a"})))
			g.Settle()
			require.Equal(t, "a", where(g, name).Host)
			g.Pass(250 * time.Millisecond)
		}
	})
}
