package schedules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func at(text string) time.Time {
	t, err := time.Parse(time.DateTime, text)
	if err != nil {
		panic(err)
	}

	return t
}

// newEntry returns the entry of a schedule that came into force at a time.
func newEntry(t *testing.T, since string, spec resources.ScheduleSpec) *entry {
	t.Helper()
	resources.SetDefaults(&spec)

	timing, err := newTiming("nightly", &spec)
	require.NoError(t, err)

	e := &entry{name: "nightly", spec: spec, timing: timing}
	e.reanchor(at(since))

	return e
}

// take empties the backlog: "15:04:05" of each tick, with "late" behind those that are.
func take(e *entry) []string {
	ticks := []string{}

	for _, tick := range e.backlog {
		text := tick.scheduled.UTC().Format("15:04:05")
		if tick.late {
			text += " late"
		}

		ticks = append(ticks, text)
	}

	e.backlog = nil

	return ticks
}

func TestCaseS43MissedTicksAreMadeUpForAsDeclared(t *testing.T) {
	for catchUp, want := range map[string][]string{
		"none": {},
		"last": {"03:00:00 late"},
		"all":  {"01:00:00 late", "02:00:00 late", "03:00:00 late"},
	} {
		t.Run(catchUp, func(t *testing.T) {
			e := newEntry(t, "2026-01-01 00:30:00", resources.ScheduleSpec{Cron: "0 * * * *", CatchUp: catchUp})
			e.started = at("2026-01-01 03:10:00") // the process was down until then

			e.advance(e.started)
			require.Equal(t, want, take(e))

			e.advance(at("2026-01-01 03:11:00"))
			require.Empty(t, take(e), "once")

			e.advance(at("2026-01-01 04:00:00"))
			require.Equal(t, []string{"04:00:00"}, take(e), "the schedule goes on")
		})
	}
}

func TestCaseS43ManyMissedTicksAreBoundedAndCheap(t *testing.T) {
	e := newEntry(t, "2016-01-01 00:00:00", resources.ScheduleSpec{Cron: "* * * * * *", CatchUp: "all"})
	e.started = at("2026-01-01 00:00:00")

	start := time.Now()
	e.advance(e.started)
	require.Len(t, e.backlog, maxBacklog)
	require.Equal(t, at("2026-01-01 00:00:00"), e.backlog[maxBacklog-1].scheduled.UTC())
	require.Less(t, time.Since(start), 5*time.Second, "315 million ticks are not walked through")
}

func TestCaseS45ClockSteps(t *testing.T) {
	t.Run("two hours forward: what was jumped over is missed, not lost, and no tick comes twice", func(t *testing.T) {
		e := newEntry(t, "2026-01-01 00:30:00", resources.ScheduleSpec{Cron: "*/30 * * * *", CatchUp: "last"})

		e.advance(at("2026-01-01 01:00:01"))
		require.Equal(t, []string{"01:00:00"}, take(e))

		e.advance(at("2026-01-01 03:05:00"))
		require.Equal(t, []string{"03:00:00 late"}, take(e))

		e.advance(at("2026-01-01 03:30:00"))
		require.Equal(t, []string{"03:30:00"}, take(e))
	})

	t.Run("two hours back: no tick comes a second time", func(t *testing.T) {
		e := newEntry(t, "2026-01-01 00:30:00", resources.ScheduleSpec{Cron: "*/30 * * * *", CatchUp: "all"})

		e.advance(at("2026-01-01 01:00:00"))
		require.Equal(t, []string{"01:00:00"}, take(e))

		for _, now := range []string{"2025-12-31 23:00:00", "2025-12-31 23:30:00", "2026-01-01 00:30:00", "2026-01-01 01:00:05"} {
			require.False(t, e.advance(at(now)))
			require.Empty(t, take(e), now)
		}

		e.advance(at("2026-01-01 01:30:00"))
		require.Equal(t, []string{"01:30:00"}, take(e))
	})

	t.Run("a clock that was wrong by years does not stop the schedule", func(t *testing.T) {
		e := newEntry(t, "2026-01-01 00:30:00", resources.ScheduleSpec{Cron: "*/30 * * * *"})

		e.advance(at("2099-01-01 00:00:00"))
		take(e)

		require.True(t, e.advance(at("2026-01-01 00:31:00")))
		e.advance(at("2026-01-01 01:00:00"))
		require.Equal(t, []string{"01:00:00"}, take(e))
	})

	t.Run("a schedule that is due once is due once", func(t *testing.T) {
		e := newEntry(t, "2026-01-01 00:30:00", resources.ScheduleSpec{At: "2026-01-01T01:00:00Z"})

		e.advance(at("2026-01-01 01:00:01"))
		require.Equal(t, []string{"01:00:00"}, take(e))

		for _, now := range []string{"2025-01-01 01:00:00", "2026-01-01 01:00:00", "2027-01-01 01:00:00"} {
			e.advance(at(now))
			require.Empty(t, take(e), now)
		}
	})
}

func TestAProcessThatSleptAMomentLosesNoTick(t *testing.T) {
	e := newEntry(t, "2026-01-01 00:00:00", resources.ScheduleSpec{Cron: "@every 2s", CatchUp: "none"})

	e.advance(at("2026-01-01 00:00:07"))
	require.Equal(t, []string{"00:00:02", "00:00:04", "00:00:06"}, take(e))
}

func TestJitterIsTheSameForTheSameTickAndKeepsTheOrder(t *testing.T) {
	spec := resources.ScheduleSpec{Cron: "*/10 * * * *", Jitter: resources.Duration(time.Hour)}
	e := newEntry(t, "2026-01-01 00:00:00", spec)

	var delays []time.Duration

	for tick := e.timing.next(e.last); len(delays) < 50; tick = e.timing.next(tick) {
		delay := e.timing.fire(tick).Sub(tick)
		require.Equal(t, delay, e.timing.fire(tick).Sub(tick))
		require.GreaterOrEqual(t, delay, time.Duration(0))
		require.Less(t, delay, 10*time.Minute, "never as late as the next tick")

		delays = append(delays, delay)
	}

	require.NotEqual(t, delays[0], delays[1])

	first := e.timing.next(e.last)
	e.advance(e.timing.fire(first).Add(-time.Millisecond))
	require.Empty(t, e.backlog)
	e.advance(e.timing.fire(first))
	require.Equal(t, []string{"00:10:00"}, take(e))
}

func TestAfterARestartQueuedTicksAreFoundAgain(t *testing.T) {
	e := newEntry(t, "2026-01-01 00:00:00", resources.ScheduleSpec{Cron: "0 * * * *"})

	e.advance(at("2026-01-01 01:00:00"))
	require.Equal(t, at("2026-01-01 01:00:00"), e.timing.next(e.settled()).UTC())

	take(e)
	require.Equal(t, at("2026-01-01 02:00:00"), e.timing.next(e.settled()).UTC())
}
