package placement_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/resources"
)

func TestCaseV25RoomForFourOfTen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(16, 64*resources.GiB))
		g.Settle()

		for i := range 10 {
			g.Create(vm(fmt.Sprintf("vm-%d", i), 4, resources.GiB))
		}

		g.Settle()

		placed := 0

		for i := range 10 {
			p := where(g, fmt.Sprintf("vm-%d", i))
			if p.Host == "a" {
				placed++

				require.Equal(t, resources.ReasonPlaced, p.Reason)

				continue
			}

			require.Equal(t, resources.ReasonUnschedulable, p.Reason)
			require.Equal(t, "host a: 0 of 16 CPUs free, 4 needed", p.Message)
			require.Equal(t, []resources.HostRefusal{{Host: "a", Reason: "0 of 16 CPUs free, 4 needed"}}, p.Hosts)
		}

		require.Equal(t, 4, placed)
	})
}

func TestCaseV26EveryHostIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		apart := rules(resources.Placement{Apart: map[string]string{"tier": "web"}})

		for _, name := range []string{"a", "b"} {
			g.AddHost(name, capacity(100, 64*resources.GiB))
		}

		for _, name := range []string{"web-1", "web-2", "web-3"} {
			g.Create(vm(name, 1, resources.GiB, labelled("tier", "web"), apart))
			g.Settle()
		}

		require.NotEqual(t, where(g, "web-1").Host, where(g, "web-2").Host)

		p := where(g, "web-3")
		require.Equal(t, resources.ReasonUnschedulable, p.Reason)
		require.Equal(t, []resources.HostRefusal{
			{Host: "a", Reason: "has VM web-1, which it must be apart from"},
			{Host: "b", Reason: "has VM web-2, which it must be apart from"},
		}, p.Hosts)

		freed := where(g, "web-1").Host

		g.Delete(resources.NewVMConfig("web-1").Metadata())
		g.Settle()

		require.Equal(t, freed, where(g, "web-3").Host, "capacity that is freed is used without an edit")
	})
}

func TestChoice(t *testing.T) {
	racks := map[string]string{"a": "r1", "b": "r1", "c": "r2"}

	for name, test := range map[string]struct {
		before []*resources.VMConfig
		vm     *resources.VMConfig
		host   string
		reason string
	}{
		"the host with the largest free share of memory is taken": {
			before: []*resources.VMConfig{vm("x", 1, resources.GiB, rules(resources.Placement{Host: "a"}))},
			vm:     vm("v", 1, resources.GiB), host: "b",
		},
		"of equal hosts the first by name is taken": {vm: vm("v", 1, resources.GiB), host: "a"},
		"a pin is obeyed": {vm: vm("v", 1, resources.GiB, rules(resources.Placement{Host: "c"})), host: "c"},
		"a pin to a host that does not exist is refused": {
			vm: vm("v", 1, resources.GiB, rules(resources.Placement{Host: "z"})), reason: "host z: there is no such host",
		},
		"a selector is obeyed": {vm: vm("v", 1, resources.GiB, rules(resources.Placement{Selector: map[string]string{"rack": "r2"}})), host: "c"},
		"memory that is short is named": {
			vm:     vm("v", 1, 9*resources.GiB, rules(resources.Placement{Host: "a"})),
			reason: "host a: 8GiB of 8GiB memory free, 9GiB needed",
		},
		"together goes where the others are": {
			before: []*resources.VMConfig{vm("x", 1, resources.GiB, labelled("app", "db"), rules(resources.Placement{Host: "b"}))},
			vm:     vm("v", 1, resources.GiB, rules(resources.Placement{Together: map[string]string{"app": "db"}})), host: "b",
		},
		"the first of a group may be anywhere": {
			vm: vm("v", 1, resources.GiB, labelled("app", "db"), rules(resources.Placement{Together: map[string]string{"app": "db"}})), host: "a",
		},
		"together waits for the others": {
			vm:     vm("v", 1, resources.GiB, rules(resources.Placement{Host: "a", Together: map[string]string{"app": "db"}})),
			reason: "host a: has no VM with the labels app=db",
		},
		"apart holds for those who do not ask for it": {
			before: []*resources.VMConfig{vm("x", 1, resources.MiB*16, rules(resources.Placement{Host: "a", Apart: map[string]string{"loud": "yes"}}))},
			vm:     vm("v", 1, resources.GiB, labelled("loud", "yes"), rules(resources.Placement{Host: "a"})),
			reason: "host a: has VM x, which it must be apart from",
		},
		"spread takes the rack with the fewest of its kind": {
			before: []*resources.VMConfig{vm("x", 1, resources.GiB, labelled("tier", "web"), rules(resources.Placement{Host: "b", Spread: "rack"}))},
			vm:     vm("v", 1, resources.GiB, labelled("tier", "web"), rules(resources.Placement{Spread: "rack"})), host: "c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)

				for _, host := range []string{"a", "b", "c"} {
					g.AddHost(host, capacity(100, 8*resources.GiB), func(h *resources.Host) { h.Metadata().Labels().Set("rack", racks[host]) })
				}

				for _, v := range test.before {
					g.Create(v.DeepCopy())
					g.Settle()
				}

				g.Create(test.vm.DeepCopy())
				g.Settle()

				p := where(g, "v")
				require.Equal(t, test.host, p.Host)
				require.Equal(t, test.reason, p.Message)
			})
		})
	}
}

func TestRefusalsOfHosts(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*chaintest.Rig)
		reason  string
		message string
		// mend makes the host good without touching the VM.
		mend func(*chaintest.Rig)
	}{
		"without hosts": {
			prepare: func(*chaintest.Rig) {}, reason: resources.ReasonNoHosts, message: "there are no hosts",
			mend: func(g *chaintest.Rig) { g.AddHost("a", capacity(8, resources.GiB)) },
		},
		"a host that is not schedulable": {
			prepare: func(g *chaintest.Rig) {
				g.AddHost("a", capacity(8, resources.GiB), func(h *resources.Host) { h.TypedSpec().Schedulable = false })
			},
			reason: resources.ReasonUnschedulable, message: "host a: is not schedulable",
			mend: func(g *chaintest.Rig) {
				chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.TypedSpec().Schedulable = true })
			},
		},
		"a host that is drained": {
			prepare: func(g *chaintest.Rig) {
				g.AddHost("a", capacity(8, resources.GiB), func(h *resources.Host) { h.TypedSpec().Drain = true })
			},
			reason: resources.ReasonUnschedulable, message: "host a: is being drained",
			mend: func(g *chaintest.Rig) {
				chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.TypedSpec().Drain = false })
			},
		},
		"a host that was never connected": {
			prepare: func(g *chaintest.Rig) {
				g.Create(resources.NewHost("a"))
				g.Fail("a")
			},
			reason: resources.ReasonHostUnreachable, message: "host a: is not connected",
			mend: func(g *chaintest.Rig) { g.Connect("a", capacity(8, resources.GiB)) },
		},
		"a host that is too small": {
			prepare: func(g *chaintest.Rig) { g.AddHost("a", capacity(8, resources.MiB)) },
			reason:  resources.ReasonUnschedulable, message: "host a: 1MiB of 1MiB memory free, 512MiB needed",
			mend: func(g *chaintest.Rig) { g.Connect("a", capacity(8, resources.GiB)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				test.prepare(g)
				g.Settle()
				g.Create(vm("v", 1, 512*resources.MiB))
				g.Settle()

				p := where(g, "v")
				require.Empty(t, p.Host)
				require.Equal(t, test.reason, p.Reason)
				require.Equal(t, test.message, p.Message)

				test.mend(g)
				g.Settle()
				require.Equal(t, "a", where(g, "v").Host)
			})
		})
	}
}

func TestPlacementSticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 8*resources.GiB))
		g.Create(vm("v", 1, resources.GiB))
		g.Settle()
		require.Equal(t, "a", where(g, "v").Host)

		g.AddHost("b", capacity(8, 64*resources.GiB))
		g.Disconnect("a")
		chaintest.Edit(g, resources.NewHost("a"), func(h *resources.Host) { h.TypedSpec().Schedulable = false })
		g.Rebuild()
		chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().Description = "changed" })
		g.Pass(time.Hour)

		p := where(g, "v")
		require.Equal(t, "a", p.Host, "a host that is away keeps its VMs")
		require.Equal(t, resources.ReasonPlaced, p.Reason)
		require.Equal(t, int64(2), p.Revision)
	})
}

func TestHostStaysUntilItsVMsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 8*resources.GiB))
		g.Create(vm("v", 1, resources.GiB))
		g.Settle()

		g.Delete(resources.NewHost("a").Metadata())
		g.Create(vm("late", 1, resources.GiB))
		g.Settle()
		require.NotNil(t, chaintest.Get(g, resources.NewHost("a")))
		require.Equal(t, "host a: is being removed", where(g, "late").Message)

		g.Delete(resources.NewVMConfig("v").Metadata())
		g.Settle()
		require.Nil(t, chaintest.Get(g, resources.NewHost("a")))
		require.Equal(t, resources.ReasonNoHosts, where(g, "late").Reason)
		require.Nil(t, chaintest.Get(g, resources.NewVMConfig("v")))
	})
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 8*resources.GiB))
		g.Create(vm("v", 2, resources.GiB))
		g.Create(vm("other", 4, resources.GiB))
		g.Settle()

		resize := func(cpus int) {
			chaintest.Edit(g, resources.NewVMConfig("v"), func(v *resources.VMConfig) { v.TypedSpec().CPUs = cpus })
			g.Settle()
		}

		resize(4)
		require.Equal(t, 4, where(g, "v").Reserved.CPUs)

		resize(6)

		p := where(g, "v")
		require.Equal(t, "a", p.Host)
		require.Equal(t, resources.ReasonNotEnoughCapacity, p.Reason)
		require.Equal(t, "host a: 4 of 8 CPUs free, 6 needed; 4 CPUs, 1GiB memory and 0 disk stay reserved", p.Message)
		require.Equal(t, 4, p.Reserved.CPUs)
		require.Equal(t, int64(2), p.Revision)

		g.Delete(resources.NewVMConfig("other").Metadata())
		g.Settle()

		p = where(g, "v")
		require.Equal(t, resources.ReasonPlaced, p.Reason)
		require.Equal(t, 6, p.Reserved.CPUs)
		require.Equal(t, int64(3), p.Revision)
	})
}

func TestAnOverrideCountsAsTheDocumentDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.Create(vm("web", 2, resources.GiB, rules(resources.Placement{Apart: map[string]string{"tag": "new"}})))
		g.Create(vm("db", 2, resources.GiB))
		g.Settle()
		require.Equal(t, "a", where(g, "db").Host)

		ended := func(name string) {
			if err := g.State().Destroy(t.Context(), resources.NewOverride(name).Metadata()); !state.IsNotFoundError(err) {
				require.NoError(t, err)
			}
		}

		override := func(name, patch, labels string) {
			ended(name)

			o := resources.NewOverride(name)
			o.TypedSpec().Patch, o.TypedSpec().Labels = resources.JSON(patch), resources.JSON(labels)
			g.Create(o)
			g.Settle()
		}

		override("web", `{"cpus":6}`, ``)
		require.Equal(t, 6, where(g, "web").Reserved.CPUs)

		// It is reserved after a restart too.
		g.Rebuild()
		g.Create(vm("late", 1, resources.GiB))
		g.Settle()
		require.Contains(t, where(g, "late").Message, "0 of 8 CPUs free")

		// When it ends, what waited has room; but not beside a VM whose label is overridden.
		override("web", `{"cpus":3}`, ``)
		require.Equal(t, "a", where(g, "late").Host)

		g.Create(vm("shy", 1, resources.GiB, rules(resources.Placement{Apart: map[string]string{"tag": "new"}})))
		g.Settle()
		require.Equal(t, "a", where(g, "shy").Host)

		override("late", ``, `{"tag":"new"}`)
		g.Create(vm("shyer", 1, resources.GiB, rules(resources.Placement{Apart: map[string]string{"tag": "new"}})))
		g.Settle()
		require.Contains(t, where(g, "shyer").Message, "has VM late, which it must be apart from")

		ended("late")
		g.Settle()
		require.Equal(t, "a", where(g, "shyer").Host)
	})
}
