package schedules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"gateway/resources"
	"gateway/resources/cronexpr"
)

// timing says when a schedule is due: by an expression, or once.
type timing struct {
	name   string
	expr   *cronexpr.Expression // nil for a schedule that is due once
	at     time.Time
	jitter time.Duration
}

// newTiming reads the timing of a schedule.
func newTiming(name string, spec *resources.ScheduleSpec) (timing, error) {
	t := timing{name: name, jitter: spec.Jitter.Std()}

	if spec.At != "" {
		at, err := time.Parse(time.RFC3339, spec.At)
		if err != nil {
			return t, fmt.Errorf("error reading at %q: %w", spec.At, err)
		}

		t.at = at

		return t, nil
	}

	loc, err := time.LoadLocation(spec.Timezone)
	if err != nil {
		return t, fmt.Errorf("error loading time zone %q: %w", spec.Timezone, err)
	}

	if t.expr, err = cronexpr.Parse(spec.Cron, loc); err != nil {
		return t, fmt.Errorf("error reading cron %q: %w", spec.Cron, err)
	}

	return t, nil
}

// describe is what an edit must change to start the schedule anew.
func describe(spec *resources.ScheduleSpec) string {
	if spec.At != "" {
		return "at " + spec.At
	}

	return spec.Cron + " " + spec.Timezone
}

// next returns the first tick after a time, zero when there is none.
func (t timing) next(after time.Time) time.Time {
	switch {
	case t.expr != nil:
		return t.expr.Next(after)
	case t.at.After(after):
		return t.at
	}

	return time.Time{}
}

// prev returns the newest tick in (after, at], zero when there is none.
func (t timing) prev(after, at time.Time) time.Time {
	switch {
	case t.expr != nil:
		return t.expr.Prev(after, at)
	case t.at.After(after) && !t.at.After(at):
		return t.at
	}

	return time.Time{}
}

// fire returns when a tick is to be written: jitter after it is due. The delay is the same for the same schedule and tick,
// so that a restart does not draw again, and less than the time to the next tick, so that ticks keep their order.
func (t timing) fire(tick time.Time) time.Time {
	limit := t.jitter

	if following := t.next(tick); !following.IsZero() {
		limit = min(limit, following.Sub(tick))
	}

	if limit < time.Millisecond {
		return tick
	}

	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", t.name, tick.Unix()))
	delay := time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(limit/time.Millisecond)) * time.Millisecond

	return tick.Add(delay)
}
