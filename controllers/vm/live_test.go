package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// drifts returns what was done to the VM's host as the mending of drift.
func (w *world) drifts(name string) (steps []string) {
	w.t.Helper()

	entries, err := w.store.Journal().Query(w.t.Context(), store.Query{Classes: []store.Class{store.ClassHypervisor}, Object: "VM/" + name})
	require.NoError(w.t, err)

	for _, e := range entries {
		if e.Reason == "Drift" {
			steps = append(steps, e.Message)
		}
	}

	return steps
}

// data adds a second disk.
func data(s *resources.VMConfigSpec) {
	s.Disks = append(s.Disks, resources.Disk{Name: "data", Size: resources.GiB, OnDelete: resources.OnDeleteKeep})
}

// What can be changed while the guest runs takes effect, and needs no restart.
func TestCaseV61LiveChanges(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		change func(*resources.VMConfigSpec)
		steps  []string
	}{
		"more CPUs":      {func(s *resources.VMConfigSpec) { s.CPUs = 4 }, []string{"redefine: cpus 1 → 4", "set cpus"}},
		"more memory":    {func(s *resources.VMConfigSpec) { s.Memory = resources.GiB }, []string{"redefine: memory 512MiB → 1GiB", "set memory"}},
		"less memory":    {func(s *resources.VMConfigSpec) { s.Memory = 256 * resources.MiB }, []string{"redefine: memory 512MiB → 256MiB", "set memory"}},
		"a new disk":     {data, []string{"make volume web.data.qcow2", "redefine: disks", "attach disk data"}},
		"a disk less":    {func(s *resources.VMConfigSpec) { s.Disks = nil }, []string{"redefine: disks", "detach disk root"}},
		"a description":  {func(s *resources.VMConfigSpec) { s.Description = "another" }, []string{"redefine: description"}},
		"a power option": {func(s *resources.VMConfigSpec) { s.OnCrash = resources.StayOff }, []string{"redefine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", func(s *resources.VMConfigSpec) { s.MaxCPUs, s.MaxMemory = 4, 2*resources.GiB })
				before := len(w.steps("web"))
				w.declare("web", test.change)
				w.pass(time.Second)

				require.Equal(t, test.steps, w.steps("web")[before:])
				require.Empty(t, w.status("web").RestartRequired)
				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
				require.Empty(t, w.drifts("web"), "it was declared")

				reconciles := w.reconciles.Load()
				w.pass(time.Hour)
				require.Equal(t, reconciles, w.reconciles.Load(), "no requeue is left")
			})
		})
	}
}

func TestAGuestThatDoesNotGoAlong(t *testing.T) {
	t.Parallel()

	t.Run("is asked again ever more rarely, until it does", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", data)
			w.host().SetStubborn(uuid("web"), true)
			w.declare("web", func(s *resources.VMConfigSpec) { s.Disks = s.Disks[:1] })
			w.pass(time.Minute)

			require.Equal(t, []string{"disks"}, w.status("web").RestartRequired)
			require.Equal(t, resources.ReasonRestartRequired, w.reason("web", resources.ConditionFalse))
			require.Equal(t, 4, count(w.steps("web"), "detach disk data"), "at once, and after 5, 15 and 35 s")

			w.host().SetStubborn(uuid("web"), false)
			w.pass(time.Minute)
			require.Empty(t, w.status("web").RestartRequired)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})

	t.Run("is left in peace in the end, however often it is looked at", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", data)
			w.host().SetStubborn(uuid("web"), true)
			w.declare("web", func(s *resources.VMConfigSpec) { s.Disks = s.Disks[:1] })
			w.pass(time.Hour)

			asked := count(w.steps("web"), "detach disk data")
			require.Equal(t, 7, asked)

			for range 100 {
				w.nudge("web")
			}

			require.Equal(t, asked, count(w.steps("web"), "detach disk data"))

			w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
			w.pass(2 * time.Minute)
			require.Empty(t, w.status("web").RestartRequired, "a restart is the other way")
		})
	})

	t.Run("keeps memory, which a restart would not change, and is named", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) { s.MaxMemory = resources.GiB })
			w.host().SetStubborn(uuid("web"), true)
			w.declare("web", func(s *resources.VMConfigSpec) { s.Memory = 256 * resources.MiB })
			w.pass(2 * time.Second)

			require.Empty(t, w.status("web").RestartRequired)
			require.Equal(t, resources.ReasonWaiting, w.reason("web", resources.ConditionFalse))

			w.host().SetStubborn(uuid("web"), false)
			w.pass(time.Minute)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})

	t.Run("and a hypervisor that refuses says why", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().Inject(sim.Fault{Kind: sim.Slow, Call: "DefineDomain", Delay: time.Second})
			w.declare("web", data)
			w.pass(500 * time.Millisecond)
			w.host().DropVolume("web.data.qcow2")
			w.pass(2 * time.Second)

			converged := resources.FindCondition(w.status("web").Conditions, resources.ConditionConverged)
			require.Equal(t, resources.ReasonRestartRequired, converged.Reason)
			require.Contains(t, converged.Message, `attach disk data: `)
			require.Contains(t, converged.Message, `there is no volume "web.data.qcow2"`)
		})
	})
}

// What others did to the running domain alone, its definition untouched, is mended by its event.
func TestCaseV60LiveDriftIsMended(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", data)
		w.host().Unplug(uuid("web"), "data")
		w.nudge("web")

		require.Equal(t, []string{"attach disk data"}, w.drifts("web"))
		require.Empty(t, w.status("web").RestartRequired)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
	})
}

// A guest that does not go along at once is asked again, and that is still the mending of what others did.
func TestCaseV60AMendingThatTakesTimeIsAuditedToo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", func(s *resources.VMConfigSpec) { s.MaxMemory = resources.GiB })
		w.host().SetStubborn(uuid("web"), true)
		w.host().Inflate(uuid("web"), 768*resources.MiB)
		w.nudge("web")
		require.Equal(t, resources.ReasonWaiting, w.reason("web", resources.ConditionFalse))
		w.host().SetStubborn(uuid("web"), false)
		w.pass(time.Minute)

		require.Equal(t, []string{"set memory", "set memory"}, w.drifts("web"))
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
	})
}

// A guest that is paused can't give memory back: it is not asked, and counts as converged.
func TestAGuestThatIsPausedIsNotAskedForMemory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", func(s *resources.VMConfigSpec) { s.MaxMemory, s.Power = resources.GiB, resources.PowerPaused })
		w.host().Inflate(uuid("web"), resources.GiB)

		for range 10 {
			w.nudge("web")
		}

		require.NotContains(t, w.steps("web"), "set memory")
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

		w.power("web", resources.PowerRunning)
		require.Equal(t, resources.ReasonWaiting, w.reason("web", resources.ConditionFalse))
		w.pass(2 * time.Minute)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
	})
}

// Each mending of what others did has a line in the journal that says so.
func TestCaseV60MendingsAreAudited(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		require.Empty(t, w.drifts("web"), "what was declared is no drift")

		w.host().SetMemory(uuid("web"), 4*resources.GiB)
		w.nudge("web")
		w.host().Destroy(uuid("web"))
		w.nudge("web")
		w.host().Pause(uuid("web"))
		w.nudge("web")

		mended := []string{"redefine: memory 4GiB → 512MiB", "start", "resume"}
		require.Equal(t, mended, w.drifts("web"))

		w.power("web", resources.PowerPaused)
		w.override("web", func(s *resources.OverrideSpec) { s.Patch = resources.JSON(`{"power":"running"}`) })
		w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
		w.pass(time.Minute)
		require.Equal(t, mended, w.drifts("web"), "what somebody asked for is no drift")
	})
}

func TestIOError(t *testing.T) {
	t.Parallel()

	t.Run("a guest is resumed once, when its cause has gone", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().SetFull(true)
			w.host().IOError(uuid("web"))
			w.nudge("web")
			w.pass(time.Hour)

			require.Equal(t, resources.ReasonIOError, w.reason("web", resources.ConditionFalse))
			require.Equal(t, resources.StatePaused, w.status("web").State)
			require.NotContains(t, w.steps("web"), "resume after an I/O error")

			w.host().SetFull(false)
			w.pass(time.Minute)
			require.Equal(t, 1, count(w.steps("web"), "resume after an I/O error"))
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

			before := w.reconciles.Load()
			w.pass(time.Hour)
			require.Equal(t, before, w.reconciles.Load(), "no requeue is left")
		})
	})

	t.Run("one that fails again and again for a reason that nobody knows is resumed ever more rarely", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)

			for range 3600 {
				if w.domain("web").State == resources.StateRunning {
					w.host().IOError(uuid("web"))
					w.nudge("web")
				}

				w.pass(time.Second)
			}

			// At once, after 10, 20, 40, 80, 160, and then every 300 s.
			require.InDelta(t, 6+11, count(w.steps("web"), "resume after an I/O error"), 1)

			w.power("web", resources.PowerStopped)
			w.pass(time.Second)
			require.Equal(t, resources.StateStopped, w.status("web").State, "it can be stopped all the while")
		})
	})
}

// Operations of others that pause a domain for a moment are left to end.
func TestADomainThatIsPausedForAMomentIsNotResumed(t *testing.T) {
	for reason, passing := range map[string]bool{"save": true, "snapshot": true, "user": false, hypervisor.ReasonIOError: false} {
		d := hypervisor.Domain{State: resources.StatePaused, Reason: reason}
		require.Equal(t, passing, d.Passing(), reason)
	}
}

// A pass that ends early, since its network changed under it, does not say of the new revision what was true of the old one.
func TestWhatWasSaidOfARevisionIsNotSaidOfTheNext(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		binding := resources.NetworkBinding{Network: "lan", MAC: "52:54:00:00:00:01", Bridge: "br0"}
		w.declare("web", func(s *resources.VMConfigSpec) { s.Interfaces = []resources.Interface{{Network: "lan"}} })
		w.place("web", "a", binding)
		w.pass(time.Second)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

		w.host().Inject(sim.Fault{Kind: sim.Slow, Call: "Domain", Delay: time.Second})
		w.declare("web", func(s *resources.VMConfigSpec) { s.Description = "another" })
		w.pass(500 * time.Millisecond)
		modify(w, resources.NewNetworkConfig("web"), func(s *resources.NetworkConfigSpec) {
			binding.Address = "10.7.0.9"
			s.Interfaces = []resources.NetworkBinding{binding}
		})
		w.pass(time.Second)
		require.EqualValues(t, 2, w.status("web").ObservedRevision)
		require.Equal(t, resources.ReasonWaiting, w.reason("web", resources.ConditionFalse))

		w.pass(5 * time.Second)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		require.Equal(t, "another", w.domain("web").Spec.Description)
	})
}
