package vm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// override writes an override as the API does.
func (w *world) override(name string, change func(*resources.OverrideSpec)) {
	w.t.Helper()

	modify(w, resources.NewOverride(name), func(s *resources.OverrideSpec) {
		s.By, s.Since = "ann", time.Now()
		change(s)
	})
	w.pass(10 * time.Millisecond)
}

// power declares another power state.
func (w *world) power(name, power string) {
	w.t.Helper()

	w.declare(name, func(s *resources.VMConfigSpec) { s.Power = power })
	w.pass(10 * time.Millisecond)
}

func count(steps []string, step string) (n int) {
	for _, s := range steps {
		if s == step {
			n++
		}
	}

	return n
}

func TestStop(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		before func(w *world)
		// steps are what it takes after the requests for a shutdown, of which there are so many.
		requests, forced int
		within           time.Duration
	}{
		"a guest that hears is asked once":                       {before: func(*world) {}, requests: 1, within: 6 * time.Second},
		"a guest that ignores it is asked every 5 s, then ended": {before: func(w *world) { w.host().SetStubborn(uuid("web"), true) }, requests: 12, forced: 1, within: 61 * time.Second},
		"a paused one is ended at once":                          {before: func(w *world) { w.power("web", resources.PowerPaused) }, forced: 1, within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", nil)
				test.before(w)
				w.power("web", resources.PowerStopped)

				if test.requests > 0 {
					require.Equal(t, resources.ReasonStopping, w.reason("web", resources.ConditionFalse))
				}

				w.pass(test.within)

				require.Equal(t, test.requests, count(w.steps("web"), "request shutdown"))
				require.Equal(t, test.forced, count(w.steps("web"), "force off"))
				require.Equal(t, resources.StateStopped, w.status("web").State)
				require.True(t, w.status("web").StopRequested.IsZero())
				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
			})
		})
	}

	t.Run("a storm of events is no storm of requests", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().SetStubborn(uuid("web"), true)
			w.power("web", resources.PowerStopped)

			for range 100 {
				w.nudge("web")
			}

			require.Equal(t, 1, count(w.steps("web"), "request shutdown"))
			w.pass(2 * time.Minute)
		})
	})

	t.Run("a guest that follows a stop that was called off is started again, whatever onGuestShutdown says", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) { s.OnGuestShutdown = resources.StayOff })
			w.host().SetStubborn(uuid("web"), true)
			w.power("web", resources.PowerStopped)
			w.power("web", resources.PowerRunning)
			w.host().GuestShutdown(uuid("web"))
			w.nudge("web")

			require.Equal(t, resources.StateRunning, w.status("web").State)
			require.Zero(t, w.status("web").Crashes)
		})
	})
}

func TestNoStatusOfAVMThatIsBeingStoppedSaysThatItConverged(t *testing.T) {
	t.Parallel()

	for name, stop := range map[string]func(w *world){
		"stopped":   func(w *world) { w.power("web", resources.PowerStopped) },
		"restarted": func(w *world) { w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" }) },
		"deleted":   func(w *world) { w.teardown(resources.NewVMConfig("web")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", nil)
				w.host().SetStubborn(uuid("web"), true)

				written := make(chan state.Event, 100)
				require.NoError(t, w.store.State().Watch(t.Context(), resources.NewVMStatus("web").Metadata(), written))

				stop(w)
				w.pass(3 * time.Second)

				stopping := 0

				for len(written) > 0 {
					s, ok := (<-written).Resource.(*resources.VMStatus)
					require.True(t, ok)

					if s.TypedSpec().StopRequested.IsZero() {
						continue
					}

					stopping++

					c := resources.FindCondition(s.TypedSpec().Conditions, resources.ConditionConverged)
					require.Equal(t, resources.ConditionFalse, c.Status, "%+v", *s.TypedSpec())
				}

				require.Positive(t, stopping)
			})
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		w.power("web", resources.PowerPaused)
		require.Equal(t, resources.StatePaused, w.status("web").State)
		w.power("web", resources.PowerRunning)
		require.Equal(t, resources.StateRunning, w.status("web").State)

		w.host().Pause(uuid("web"))
		w.nudge("web")
		require.Equal(t, resources.StateRunning, w.status("web").State, "paused behind our back")
	})
}

func TestGuestEndsByItself(t *testing.T) {
	t.Parallel()

	stay := func(s *resources.VMConfigSpec) { s.OnCrash, s.OnGuestShutdown = resources.StayOff, resources.StayOff }

	for name, test := range map[string]struct {
		change func(*resources.VMConfigSpec)
		end    func(w *world)
		state  string
		// crashes is what is counted, reason what the journal says of the last step.
		crashes int
		reason  string
	}{
		"a crash is answered by a start":                          {nil, func(w *world) { w.host().Crash(uuid("web")) }, resources.StateRunning, 1, "GuestCrashed"},
		"a crash stays off where the document says so":            {stay, func(w *world) { w.host().Crash(uuid("web")) }, resources.StateCrashed, 0, ""},
		"a poweroff in the guest is answered by a start":          {nil, func(w *world) { w.host().GuestShutdown(uuid("web")) }, resources.StateRunning, 1, "GuestShutdown"},
		"a poweroff in the guest stays where the document says":   {stay, func(w *world) { w.host().GuestShutdown(uuid("web")) }, resources.StateStopped, 0, ""},
		"a domain ended behind our back is started, and no crash": {stay, func(w *world) { w.host().Destroy(uuid("web")) }, resources.StateRunning, 0, "Drift"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", test.change)
				test.end(w)
				w.nudge("web")

				require.Equal(t, test.state, w.status("web").State)
				require.Equal(t, test.crashes, w.status("web").Crashes)
				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
				require.Equal(t, test.reason, w.lastStep("web").Reason, "which the journal has")

				w.pass(11 * time.Minute)
				require.Zero(t, w.status("web").Crashes, "forgotten after ten minutes")

				before := w.reconciles.Load()
				w.pass(time.Hour)
				require.Equal(t, before, w.reconciles.Load(), "no requeue is left")
			})
		})
	}

	t.Run("one that can't go on is ended and started, ever more rarely", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)

			for range int(12 * time.Minute / time.Second) {
				if w.host().Break(uuid("web")) {
					w.nudge("web")
				}

				w.pass(time.Second)
			}

			require.InDelta(t, 8, count(w.steps("web"), "start"), 1)
			require.Equal(t, count(w.steps("web"), "start")-1, count(w.steps("web"), "force off"))
			require.Zero(t, count(w.steps("web"), "resume"))
			require.Equal(t, resources.ReasonCrashLoop, w.reason("web", resources.ConditionFalse))
		})
	})

	t.Run("one that can't go on stays where the document says so", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", stay)
			require.True(t, w.host().Break(uuid("web")))
			w.nudge("web")
			w.pass(time.Hour)
			require.Equal(t, resources.StatePaused, w.status("web").State)
			require.Equal(t, resources.ReasonHypervisorFailed, w.reason("web", resources.ConditionFalse))
			require.Contains(t, resources.FindCondition(w.status("web").Conditions, resources.ConditionConverged).Message, "`gateway restart web`")

			w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
			require.Equal(t, resources.StateRunning, w.status("web").State)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})

	t.Run("a power command starts what stayed off", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", stay)
			w.host().GuestShutdown(uuid("web"))
			w.nudge("web")
			require.Equal(t, resources.StateStopped, w.status("web").State)

			w.override("web", func(s *resources.OverrideSpec) { s.Patch = resources.JSON(`{"power":"running"}`) })
			require.Equal(t, resources.StateRunning, w.status("web").State)

			w.pass(time.Second)
			w.host().GuestShutdown(uuid("web"))
			w.nudge("web")
			require.Equal(t, resources.StateStopped, w.status("web").State, "the command held for one start")
		})
	})
}

// A guest that fails at boot again and again is started ever more rarely, and power: stopped works at once.
func TestCaseV63(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)

		crashFor := func(d time.Duration) {
			for range int(d / time.Second) {
				if w.host().Crash(uuid("web")) {
					w.nudge("web")
				}

				w.pass(time.Second)
			}
		}

		// Starts at once, after 10, 20, 40, 80, 160 and then every 300 s.
		crashFor(12 * time.Minute)
		require.InDelta(t, 8, count(w.steps("web"), "start"), 1)
		require.Equal(t, resources.ReasonCrashLoop, w.reason("web", resources.ConditionFalse))
		require.GreaterOrEqual(t, w.status("web").Crashes, 6)

		crashFor(time.Hour)
		require.Equal(t, resources.StateCrashed, w.status("web").State)
		require.LessOrEqual(t, count(w.steps("web"), "start"), 8+13)

		w.power("web", resources.PowerStopped)
		w.pass(time.Second)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		require.Equal(t, resources.StateStopped, w.status("web").State, "and not crashed: whoever waits for it would wait for ever")
		require.Zero(t, w.status("web").Crashes)

		w.power("web", resources.PowerRunning)
		require.Equal(t, resources.StateRunning, w.status("web").State, "a fresh start is not held back")
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()

	t.Run("a request is carried out once, also over a rebuild of the runtime in its middle", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.host().SetStubborn(uuid("web"), true)
			w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
			w.restart()
			w.pass(2 * time.Minute)
			w.restart()
			w.pass(2 * time.Minute)

			require.Equal(t, "one", w.status("web").RestartID)
			require.Equal(t, 2, count(w.steps("web"), "start"))
			require.Equal(t, 1, count(w.steps("web"), "force off"))
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})

	t.Run("a VM that is to be off is not started by it", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) { s.Power = resources.PowerStopped })
			w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
			w.power("web", resources.PowerRunning)
			w.pass(2 * time.Minute)

			require.Equal(t, 1, count(w.steps("web"), "start"))
			require.NotContains(t, w.steps("web"), "request shutdown")
		})
	})
}

func TestOverride(t *testing.T) {
	t.Parallel()

	t.Run("it is in force until its time is over, and shown", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.override("web", func(s *resources.OverrideSpec) {
				s.Patch, s.Until = resources.JSON(`{"power":"stopped"}`), time.Now().Add(2*time.Hour)
			})
			w.pass(time.Hour)
			require.Equal(t, resources.StateStopped, w.status("web").State)
			require.Equal(t, "ann", w.status("web").Override.By)
			require.Equal(t, resources.PowerStopped, w.status("web").Override.Power)

			w.pass(time.Hour + time.Second)
			require.Equal(t, resources.StateRunning, w.status("web").State)
			require.Nil(t, w.status("web").Override)
		})
	})

	t.Run("one that does not apply is left out, and said so", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)
			w.override("web", func(s *resources.OverrideSpec) { s.Patch = resources.JSON(`{"cpus":-1}`) })

			accepted := resources.FindCondition(w.status("web").Conditions, resources.ConditionAccepted)
			require.Equal(t, resources.ConditionFalse, accepted.Status)
			require.Contains(t, accepted.Message, "ann")
			require.Equal(t, resources.StateRunning, w.status("web").State)
		})
	})
}

func TestHold(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)

		hold := resources.NewHold(resources.HoldID("VM", "web"))
		modify(w, hold, func(s *resources.HoldSpec) { s.Kind, s.Name, s.By = "VM", "web", "ann" })
		w.pass(time.Second)
		require.True(t, w.status("web").Held)
		require.Equal(t, resources.ReasonHeld, w.reason("web", resources.ConditionFalse))

		steps := w.steps("web")
		w.host().Destroy(uuid("web"))
		w.nudge("web")
		w.power("web", resources.PowerPaused)
		require.Equal(t, resources.StateStopped, w.status("web").State, "it is still observed")
		require.True(t, slices.Equal(steps, w.steps("web")), "and nothing is done")

		require.NoError(t, w.store.State().Destroy(t.Context(), hold.Metadata()))
		w.pass(time.Second)
		require.False(t, w.status("web").Held)
		require.Equal(t, resources.StatePaused, w.status("web").State)
	})
}

// A change that can't be applied live is shown with its fields, and forgotten when it is taken back or after a restart.
func TestCaseV61(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)

		memory := func(m resources.Size) {
			w.declare("web", func(s *resources.VMConfigSpec) { s.Memory = m })
			w.pass(time.Second)
		}

		memory(2 * resources.GiB)
		require.Equal(t, []string{"memory"}, w.status("web").RestartRequired)
		require.Equal(t, resources.ReasonRestartRequired, w.reason("web", resources.ConditionFalse))
		require.Equal(t, resources.StateRunning, w.status("web").State)

		memory(512 * resources.MiB)
		require.Empty(t, w.status("web").RestartRequired)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

		memory(2 * resources.GiB)
		w.override("web", func(s *resources.OverrideSpec) { s.RestartID = "one" })
		w.pass(time.Minute)
		require.Empty(t, w.status("web").RestartRequired)
		require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
	})
}

func TestAnOverrideOfLabelsIsShownAndIsNoPowerState(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		w.override("web", func(s *resources.OverrideSpec) {
			s.Labels, s.Patch, s.Until = resources.JSON(`{"tag":"new"}`), resources.JSON(`{"power":"stopped"}`), time.Now().Add(time.Hour)
		})
		w.pass(2 * time.Minute)

		status := w.status("web")
		require.Equal(t, resources.StateStopped, status.State)
		require.Equal(t, resources.PowerStopped, status.Override.Power)
		require.JSONEq(t, `{"tag":"new"}`, string(status.Override.Labels))

		// The hour of the power state is over, and nobody has tidied up yet.
		w.pass(time.Hour)

		status = w.status("web")
		require.Equal(t, resources.StateRunning, status.State)
		require.Empty(t, status.Override.Power)
		require.JSONEq(t, `{"tag":"new"}`, string(status.Override.Labels))
	})
}
