package schedules_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/intake/intaketest"
	"gateway/sources/schedules"
	"gateway/store"
)

// world is a source on a state, in a bubble of virtual time that starts at midnight UTC on 1 January 2000.
type world struct {
	*testing.T

	state   state.State
	journal *intaketest.Journal
	stop    func()
}

func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, state: intaketest.NewState(), journal: &intaketest.Journal{}}
		w.start()
		test(w)
	})
}

func (w *world) start() {
	w.stop = intaketest.Run(w.T, w.state, schedules.New(schedules.Options{Journal: w.journal}))
	synctest.Wait()
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) declare(name string, spec resources.ScheduleSpec) {
	w.Helper()
	resources.SetDefaults(&spec)
	require.NoError(w, spec.Validate().Err())

	schedule := resources.NewSchedule(name)
	*schedule.TypedSpec() = spec

	err := w.state.Create(w.Context(), schedule)
	if state.IsConflictError(err) {
		_, err = safe.StateUpdateWithConflicts(w.Context(), w.state, schedule.Metadata(), func(s *resources.Schedule) error {
			*s.TypedSpec() = spec

			return nil
		})
	}

	require.NoError(w, err)
	synctest.Wait()
}

// tick returns the newest tick, nil when there is none.
func (w *world) tick(name string) *resources.CronTickSpec {
	w.Helper()

	res, err := safe.StateGetByID[*resources.CronTick](w.Context(), w.state, name)
	if state.IsNotFoundError(err) {
		return nil
	}

	require.NoError(w, err)

	return res.TypedSpec()
}

func (w *world) status(name string) *resources.ScheduleStatusSpec {
	w.Helper()

	res, err := safe.StateGetByID[*resources.ScheduleStatus](w.Context(), w.state, name)
	require.NoError(w, err)

	return res.TypedSpec()
}

func TestATickIsWrittenWithItsTargetAndRecorded(t *testing.T) {
	inBubble(t, func(w *world) {
		target := &resources.Target{Kind: "VM", Selector: &resources.Selector{}}
		w.declare("nightly", resources.ScheduleSpec{Cron: "0 3 * * *", Timezone: "Europe/Berlin", Target: target})

		w.pass(2*time.Hour - time.Second)
		require.Nil(t, w.tick("nightly"))

		w.pass(time.Second)

		tick := w.tick("nightly")
		due := time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)
		require.Equal(t, due, tick.Scheduled.UTC())
		require.False(t, tick.Late)
		require.Equal(t, target, tick.Event.Target)
		require.Equal(t, resources.SourceSchedule, tick.Event.Source)
		require.Equal(t, "nightly", tick.Event.Name)
		require.EqualValues(t, 1, tick.Event.Sequence)
		require.Equal(t, resources.EventID("schedule", "nightly", "2000-01-01T02:00:00Z"), tick.Event.ID)

		entries := w.journal.Entries()
		require.Len(t, entries, 1)
		require.Equal(t, store.ClassEvent, entries[0].Class)
		require.Equal(t, tick.Event.ID, entries[0].EventID)
		require.Equal(t, target.String(), entries[0].Object)

		w.pass(24 * time.Hour)
		require.EqualValues(t, 2, w.tick("nightly").Event.Sequence)

		w.pass(2 * time.Second)

		status := w.status("nightly")
		require.EqualValues(t, 2, status.Counts.Received)
		require.Len(t, status.Next, 5)
		require.Equal(t, due.Add(48*time.Hour), status.Next[0].UTC())
		require.Len(t, status.Last, 2)
		require.Equal(t, resources.ConditionTrue, status.Conditions[0].Status)
	})
}

func TestTheStatusIsWrittenAtMostOnceASecond(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("busy", resources.ScheduleSpec{Cron: "* * * * * *"})
		w.pass(time.Minute + time.Second)

		res, err := w.state.Get(w.Context(), resources.NewScheduleStatus("busy").Metadata())
		require.NoError(t, err)
		require.LessOrEqual(t, res.Metadata().Version().Value(), uint64(62))
		require.EqualValues(t, 61, w.tick("busy").Event.Sequence)
	})
}

func TestCaseS43ARestartMakesUpForMissedTicksOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("hourly", resources.ScheduleSpec{Cron: "0 * * * *"})
		w.pass(time.Hour)
		require.EqualValues(t, 1, w.tick("hourly").Event.Sequence)
		w.pass(2 * time.Second)

		w.stop()
		w.pass(3*time.Hour + time.Minute)
		w.start()

		require.Equal(t, 4, w.tick("hourly").Scheduled.UTC().Hour())
		require.True(t, w.tick("hourly").Late)
		require.EqualValues(t, 2, w.tick("hourly").Event.Sequence, "catchUp: last is the default, once")

		w.stop()
		w.pass(time.Minute)
		w.start()
		require.EqualValues(t, 2, w.tick("hourly").Event.Sequence)
	})
}

func TestCaseS43AllMissedTicksComeOneAfterAnother(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("hourly", resources.ScheduleSpec{Cron: "0 * * * *", CatchUp: "all"})
		w.pass(2 * time.Second)
		w.stop()
		w.pass(5*time.Hour + time.Minute)
		w.start()
		w.pass(time.Second)

		require.EqualValues(t, 5, w.tick("hourly").Event.Sequence)
		require.Len(t, w.journal.Entries(), 5)
	})
}

func TestCaseS44EditingDoesNotFireAndStartsAnew(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("poll", resources.ScheduleSpec{Cron: "@every 1h"})
		w.pass(59 * time.Minute)

		w.declare("poll", resources.ScheduleSpec{Cron: "@every 30m", CatchUp: "all"})
		w.pass(29 * time.Minute)
		require.Nil(t, w.tick("poll"), "neither at once nor when the old one was due")

		w.pass(time.Minute)
		require.EqualValues(t, 1, w.tick("poll").Event.Sequence)

		// Edited to what was due every hour of the past: nothing is made up for.
		w.declare("poll", resources.ScheduleSpec{Cron: "0 * * * *", CatchUp: "all"})
		w.pass(2 * time.Second)
		require.EqualValues(t, 1, w.tick("poll").Event.Sequence)
	})
}

func TestCaseS44EditingWhileTheGatewayIsDownDoesNotFire(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("hourly", resources.ScheduleSpec{Cron: "0 * * * *", CatchUp: "all"})
		w.pass(2 * time.Second)
		w.stop()
		w.pass(3*time.Hour + time.Minute)
		w.declare("hourly", resources.ScheduleSpec{Cron: "30 * * * *", CatchUp: "all"})
		w.start()
		w.pass(time.Minute)
		require.Nil(t, w.tick("hourly"))
	})
}

// setConverged writes a VM's status.
func (w *world) setConverged(vm string, status resources.ConditionStatus) {
	w.Helper()

	set := func(s *resources.VMStatus) error {
		s.TypedSpec().Conditions = resources.SetCondition(s.TypedSpec().Conditions,
			resources.Condition{Type: resources.ConditionConverged, Status: status, Reason: "Test"}, time.Now())

		return nil
	}

	res := resources.NewVMStatus(vm)
	require.NoError(w, set(res))

	err := w.state.Create(w.Context(), res)
	if state.IsConflictError(err) {
		_, err = safe.StateUpdateWithConflicts(w.Context(), w.state, res.Metadata(), set)
	}

	require.NoError(w, err)
}

func TestCaseS46ARunThatIsStillGoing(t *testing.T) {
	for overlap, want := range map[string]struct {
		during, after uint64
		skipped       int64
	}{
		"skip":  {1, 2, 2}, // the two ticks of the run are gone, the next comes in its time
		"queue": {1, 4, 0}, // all are there
		"allow": {3, 4, 0},
	} {
		t.Run(overlap, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.setConverged("web-1", resources.ConditionTrue)
				w.setConverged("web-2", resources.ConditionFalse) // stuck since before: no part of any run

				vm := resources.NewVMConfig("web-1")
				vm.Metadata().Labels().Set("tier", "web")
				require.NoError(t, w.state.Create(w.Context(), vm))

				target := &resources.Target{Kind: "VM", Selector: &resources.Selector{Match: map[string]string{"tier": "web"}}}
				w.declare("patch", resources.ScheduleSpec{Cron: "@every 1m", Overlap: overlap, Target: target})

				w.pass(time.Minute)
				require.EqualValues(t, 1, w.tick("patch").Event.Sequence)
				w.setConverged("web-1", resources.ConditionFalse)

				w.pass(2*time.Minute + 5*time.Second)
				require.Equal(t, want.during, w.tick("patch").Event.Sequence)
				require.Equal(t, want.skipped, w.status("patch").Skipped)

				w.setConverged("web-1", resources.ConditionTrue)
				w.pass(time.Minute)
				require.Equal(t, want.after, w.tick("patch").Event.Sequence)
			})
		})
	}
}

func TestARunThatNeverSettlesEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		w.setConverged("web-1", resources.ConditionTrue)
		w.declare("patch", resources.ScheduleSpec{Cron: "@every 1m", Target: &resources.Target{Kind: "VM", Name: "web-1"}})
		w.pass(time.Minute)
		w.setConverged("web-1", resources.ConditionFalse)
		w.pass(59 * time.Minute)
		require.EqualValues(t, 1, w.tick("patch").Event.Sequence)
		w.pass(5 * time.Minute)
		require.Greater(t, w.tick("patch").Event.Sequence, uint64(1))
	})
}

func TestAScheduleForOneTimeIsDueOnceEver(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("once", resources.ScheduleSpec{At: "2000-01-01T00:30:00Z"})
		w.declare("over", resources.ScheduleSpec{At: "1999-12-31T00:00:00Z"})
		w.pass(30 * time.Minute)
		require.EqualValues(t, 1, w.tick("once").Event.Sequence)
		require.Nil(t, w.tick("over"), "what was over when it was declared never fires")
		w.pass(2 * time.Second)
		require.Equal(t, resources.ConditionFalse, w.status("over").Conditions[0].Status)

		w.stop()
		w.pass(time.Hour)
		w.start()
		w.pass(time.Minute)
		require.EqualValues(t, 1, w.tick("once").Event.Sequence)
	})
}

func TestARemovedScheduleLeavesNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare("gone", resources.ScheduleSpec{Cron: "@every 1s"})
		w.pass(3 * time.Second)
		require.NotNil(t, w.tick("gone"))

		// Somebody still looks at the tick.
		require.NoError(t, w.state.AddFinalizer(w.Context(), resources.NewCronTick("gone").Metadata(), "trigger"))
		require.NoError(t, w.state.Destroy(w.Context(), resources.NewSchedule("gone").Metadata()))
		synctest.Wait()

		res, err := w.state.Get(w.Context(), resources.NewCronTick("gone").Metadata())
		require.NoError(t, err)
		require.Equal(t, resource.PhaseTearingDown, res.Metadata().Phase())

		require.NoError(t, w.state.RemoveFinalizer(w.Context(), resources.NewCronTick("gone").Metadata(), "trigger"))
		synctest.Wait()
		require.Nil(t, w.tick("gone"))

		_, err = w.state.Get(w.Context(), resources.NewScheduleStatus("gone").Metadata())
		require.True(t, state.IsNotFoundError(err))
	})
}
