package vm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// leave lets go of a placement and its network as placement and network do, if the vm controller has. It reports whether
// both are gone.
func (w *world) leave(name string) bool {
	w.t.Helper()

	placement, network := resources.NewVMPlacement(name), resources.NewNetworkConfig(name)
	if get(w, placement) != nil && get(w, placement).Metadata().Finalizers().Empty() {
		require.NoError(w.t, w.store.State().Destroy(w.t.Context(), placement.Metadata()))
	}

	if get(w, network) != nil && get(w, network).Metadata().Finalizers().Empty() {
		require.NoError(w.t, w.store.State().Destroy(w.t.Context(), network.Metadata()))
	}

	return get(w, placement) == nil && get(w, network) == nil
}

func (w *world) tombstones() (all []*resources.Tombstone) {
	w.t.Helper()

	list, err := safe.StateListAll[*resources.Tombstone](w.t.Context(), w.store.State())
	require.NoError(w.t, err)

	for stone := range list.All() {
		all = append(all, stone)
	}

	return all
}

func TestDelete(t *testing.T) {
	t.Parallel()

	t.Run("stop, undefine, volumes, tombstone, and only then the chain is let go", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) {
				s.Disks = append(s.Disks, resources.Disk{Name: "scratch", Size: resources.GiB, OnDelete: resources.OnDeleteRemove})
			})
			w.host().SetStubborn(uuid("web"), true)
			made := len(w.steps("web"))
			number := get(w, resources.NewVMStatus("web")).Metadata().Version().Value()

			w.teardown(resources.NewVMConfig("web"))
			w.pass(30 * time.Second)
			require.Equal(t, resources.ReasonDeleting, w.reason("web", resources.ConditionFalse))
			require.False(t, w.leave("web"), "the domain still uses the network")
			w.pass(31 * time.Second)

			require.True(t, w.leave("web"))
			require.Nil(t, get(w, resources.NewVMConfig("web")))
			require.Nil(t, get(w, resources.NewVMStatus("web")))

			steps := w.steps("web")[made:]
			require.Equal(t, []string{"force off", "undefine", "remove volume web.scratch.qcow2"}, steps[len(steps)-3:])
			require.Len(t, w.host().Volumes(), 1)

			require.Len(t, w.tombstones(), 1)
			stone := w.tombstones()[0].TypedSpec()
			require.Equal(t, "uid-of-web", stone.UID)
			require.Equal(t, "a", stone.Host)
			require.Greater(t, stone.Number, number)
			require.Equal(t, []string{"volume web.root.qcow2 on host a"}, stone.LeftBehind)
		})
	})

	t.Run("a VM that is held stays, unless the hold came with a forced deletion", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			modify(w, resources.NewHold(resources.HoldID("VM", "web")), func(s *resources.HoldSpec) { s.By = "ann" })
			w.teardown(resources.NewVMConfig("web"))
			w.pass(time.Hour)
			require.Equal(t, resources.StateRunning, w.domain("web").State)

			modify(w, resources.NewHold(resources.HoldID("VM", "web")), func(s *resources.HoldSpec) { s.Reason = resources.HoldForced })
			w.pass(time.Minute)
			require.Nil(t, get(w, resources.NewVMConfig("web")))
		})
	})
}

// A VM that never ran, whose create is still being tried, whose domain is gone already or whose host is away is deleted, or says
// what it waits for.
func TestCaseV81(t *testing.T) {
	t.Parallel()

	for name, prepare := range map[string]func(w *world){
		"that was never placed": func(w *world) { w.declare("web", func(*resources.VMConfigSpec) {}) },
		"whose host was never connected": func(w *world) {
			w.declare("web", func(*resources.VMConfigSpec) {})
			w.place("web", "nowhere")
		},
		"whose create is still being retried": func(w *world) {
			w.host().Inject(sim.Fault{Kind: sim.FailBefore, Call: "StartDomain"})
			w.make("web", nil)
		},
		"whose domain is gone already": func(w *world) {
			w.make("web", nil)
			w.host().Undefine(uuid("web"))
			w.host().Destroy(uuid("web"))
		},
	} {
		t.Run("a VM "+name+" is deleted", func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				prepare(w)
				w.pass(time.Second)
				w.teardown(resources.NewVMConfig("web"))
				w.pass(2 * time.Minute)

				require.Nil(t, get(w, resources.NewVMConfig("web")))
				require.Nil(t, get(w, resources.NewVMStatus("web")))

				_, ok := w.host().Domain(uuid("web"))
				require.False(t, ok)
			})
		})
	}

	t.Run("on a host that is away it waits and says so", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().Kill(false)
			w.connect("a", false)
			w.teardown(resources.NewVMConfig("web"))
			w.pass(time.Hour)
			require.Equal(t, resources.ReasonHostUnreachable, w.reason("web", resources.ConditionUnknown))
			require.Equal(t, resources.StateUnknown, w.status("web").State)

			w.host().Revive()
			w.connect("a", true)
			w.pass(time.Minute)
			require.Nil(t, get(w, resources.NewVMConfig("web")))
		})
	})
}

func TestMove(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.connect("b", true)
		w.declare("web", func(*resources.VMConfigSpec) {})
		w.place("web", "a")
		w.pass(time.Second)

		w.teardown(resources.NewVMPlacement("web"))
		require.False(t, w.leave("web"), "the guest is being stopped")
		w.pass(10 * time.Second)

		moving := resources.FindCondition(w.status("web").Conditions, resources.ConditionPlaced)
		require.Equal(t, resources.ReasonMoving, moving.Reason)

		_, ok := w.host().Domain(uuid("web"))
		require.False(t, ok, "the old host has confirmed")

		require.True(t, w.leave("web"))
		w.place("web", "b")
		w.pass(time.Second)

		located := w.sim.Domains(uuid("web"))
		require.Len(t, located, 1)
		require.Equal(t, "b", located[0].Host)
		require.Equal(t, "b", w.status("web").Host)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
	})
}

// What changed behind our back is set right.
func TestADomainThatIsMadeAgainHasWhatOthersGaveIt(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		require.True(t, w.host().AddDisk(uuid("web"), "/srv/theirs.img"))
		w.nudge("web")

		theirs := w.domain("web").Spec.Disks[1]
		require.True(t, theirs.Foreign)

		w.host().Undefine(uuid("web"))
		w.host().Destroy(uuid("web"))
		w.nudge("web")
		require.Equal(t, resources.StateRunning, w.status("web").State)
		require.Contains(t, w.domain("web").Spec.Disks, theirs)
	})
}

func TestCaseV60(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(w *world)
		steps  []string
	}{
		"undefined and off: made again, from its disk": {
			func(w *world) { w.host().Undefine(uuid("web")); w.host().Destroy(uuid("web")) }, []string{"define", "start"},
		},
		"shut off: started again":        {func(w *world) { w.host().Destroy(uuid("web")) }, []string{"start"}},
		"the memory changed: set right":  {func(w *world) { w.host().SetMemory(uuid("web"), 4*resources.GiB) }, []string{"redefine: memory 4GiB → 512MiB"}},
		"nothing: nothing":               {func(*world) {}, nil},
		"paused: resumed":                {func(w *world) { w.host().Pause(uuid("web")) }, []string{"resume"}},
		"its volume gone while it is on": {func(w *world) { w.host().DropVolume("web.root.qcow2") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", nil)
				before := len(w.steps("web"))
				test.change(w)
				w.nudge("web")

				require.Equal(t, test.steps, append([]string(nil), w.steps("web")[before:]...))
				require.Equal(t, resources.StateRunning, w.status("web").State)
				require.Empty(t, w.status("web").RestartRequired)
			})
		})
	}

	t.Run("a lost disk is never replaced by an empty one", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().Undefine(uuid("web"))
			w.host().Destroy(uuid("web"))
			w.host().DropVolume("web.root.qcow2")
			w.nudge("web")

			require.Equal(t, resources.ReasonDiskMissing, w.reason("web", resources.ConditionFalse))
			require.Empty(t, w.host().Volumes())
			w.pass(time.Hour)
			require.Empty(t, w.host().Volumes())
		})
	})
}

// A thousand looks at a converged VM change nothing, neither on the hypervisor nor in the status.
func TestCaseV62(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", func(s *resources.VMConfigSpec) { s.Description, s.MaxCPUs, s.Graphics = "Web front end", 4, "vnc" })

		version := get(w, resources.NewVMStatus("web")).Metadata().Version()
		calls, changes, looks := w.sim.Calls(), w.sim.Changes(), w.reconciles.Load()

		for range 1000 {
			w.nudge("web")
		}

		require.EqualValues(t, 1000, w.reconciles.Load()-looks)
		require.Equal(t, changes, w.sim.Changes())
		require.Equal(t, version, get(w, resources.NewVMStatus("web")).Metadata().Version())

		for call, n := range w.sim.Calls() {
			if call != "Domain" && call != "Info" {
				require.Equal(t, calls[call], n, call)
			}
		}
	})
}

// The connection to a host with 500 running domains is lost and comes back: their state is unknown meanwhile, and nothing
// is started or stopped.
func TestCaseV64(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		const vms = 500

		each := func(do func(name string)) {
			for i := range vms {
				do(fmt.Sprintf("vm-%d", i))
			}
		}

		each(func(name string) {
			w.declare(name, func(*resources.VMConfigSpec) {})
			w.place(name, "a")
		})
		w.pass(10 * time.Second)
		each(func(name string) { require.Equal(t, resources.StateRunning, w.status(name).State) })

		changes := w.sim.Changes()

		w.host().Kill(false)
		w.connect("a", false)
		w.pass(time.Minute)
		each(func(name string) {
			require.Equal(t, resources.StateUnknown, w.status(name).State)
			require.False(t, w.status(name).LastKnown.IsZero())
		})

		w.host().Revive()
		w.connect("a", true)
		w.pass(10 * time.Second)
		each(func(name string) {
			require.Equal(t, resources.StateRunning, w.status(name).State)
			require.True(t, w.status(name).LastKnown.IsZero())
			require.Equal(t, resources.ReasonConverged, w.reason(name, resources.ConditionTrue))
		})
		require.Equal(t, changes, w.sim.Changes())
	})
}

// One VM's hanging calls delay no other VM.
func TestCaseV65(t *testing.T) {
	t.Parallel()

	t.Run("one VM hangs", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			remove := w.host().Inject(sim.Fault{Kind: sim.Hang, Call: "Domain", Subject: uuid("slow")})
			w.make("slow", nil)
			w.make("fast", nil)

			require.Equal(t, resources.StateRunning, w.status("fast").State)

			remove()
			w.pass(time.Minute)
			require.Equal(t, resources.StateRunning, w.status("slow").State)
		})
	})

	t.Run("a host that does not answer at all is asked by one VM at a time", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.connect("b", true)

			remove := w.host().Inject(sim.Fault{Kind: sim.Hang, Call: "Domain"})

			for i := range 100 {
				name := fmt.Sprintf("vm-%d", i)
				w.declare(name, func(*resources.VMConfigSpec) {})
				w.place(name, "a")
			}

			w.pass(6 * time.Second)
			w.declare("other", func(*resources.VMConfigSpec) {})
			w.place("other", "b")
			w.pass(time.Second)
			require.Equal(t, resources.StateRunning, w.status("other").State)

			calls := w.sim.Calls()["Domain"]
			w.pass(time.Minute)
			require.LessOrEqual(t, w.sim.Calls()["Domain"]-calls, int64(13))

			remove()
			w.pass(time.Minute)
			require.Equal(t, resources.StateRunning, w.status("vm-7").State)
		})
	})
}

// Killed at every step of create and delete, the work goes on from there: never a second domain, nothing left behind.
func TestCaseV66(t *testing.T) {
	t.Parallel()

	for _, call := range []string{"EnsureVolume", "DefineDomain", "StartDomain", "RequestShutdown", "UndefineDomain", "RemoveVolume"} {
		for name, kind := range map[string]sim.FaultKind{"before": sim.FailBefore, "after": sim.FailAfter} {
			t.Run(fmt.Sprintf("killed %s %s", name, call), func(t *testing.T) {
				t.Parallel()
				inWorld(t, func(t *testing.T, w *world) {
					w.host().Inject(sim.Fault{Kind: kind, Call: call, Err: hypervisor.ErrUnreachable, Times: 1})
					w.make("web", func(s *resources.VMConfigSpec) { s.Disks[0].OnDelete = resources.OnDeleteRemove })
					w.restart()
					w.pass(time.Minute)
					require.Equal(t, resources.StateRunning, w.domain("web").State)

					w.teardown(resources.NewVMConfig("web"))
					w.restart()
					w.pass(2 * time.Minute)
					require.True(t, w.leave("web"))
					require.Nil(t, get(w, resources.NewVMConfig("web")))
					require.Empty(t, w.host().Volumes())
					require.Len(t, w.tombstones(), 1)

					_, ok := w.host().Domain(uuid("web"))
					require.False(t, ok)
				})
			})
		}
	}
}
