package schedules

import (
	"slices"
	"time"

	"gateway/resources"
)

const (
	// lateAfter is how much later than planned a tick counts as missed: more than the longest sleep between two looks at
	// the clock, so that only a stopped process, a suspended machine or a clock set forward makes ticks late.
	lateAfter = 2 * maxSleep
	// maxBacklog bounds the ticks that are made up for, or queued behind a run.
	maxBacklog = 100
	// maxBackward is how far the clock may be set back while ticks that were dealt with are remembered. A clock that was
	// wrong by more was never right: the schedule starts anew rather than stand still.
	maxBackward = 24 * time.Hour
)

// tick is one time at which a schedule is due.
type tick struct {
	scheduled time.Time
	late      bool
}

// entry is what the source knows of one schedule. Only Run's goroutine uses it.
type entry struct {
	name     string
	spec     resources.ScheduleSpec
	revision int64
	timing   timing
	// invalid says why there is no timing.
	invalid string
	// last is the newest tick that was dealt with, or when the schedule came into force.
	last time.Time
	// started is when this process began to watch the schedule: what was due before was missed.
	started time.Time
	// backlog holds what is due and not yet written, the oldest first, at most maxBacklog.
	backlog []tick
	// notBefore delays the next look at the backlog.
	notBefore time.Time
	// run is when the newest tick was written.
	run    time.Time
	status status
}

// reanchor makes the schedule start at now: nothing up to now is ever due.
func (e *entry) reanchor(now time.Time) {
	e.last, e.started, e.backlog = now, now, nil
	e.status.dirty = true
}

// advance moves what is due at now to the backlog. It reports whether the clock was set back so far that the schedule
// started anew.
func (e *entry) advance(now time.Time) (reset bool) {
	if e.invalid != "" {
		return false
	}

	if e.timing.expr != nil && now.Add(maxBackward).Before(e.last) {
		e.reanchor(now)

		return true
	}

	newest := e.newestDue(now)
	if newest.IsZero() {
		return false
	}

	e.backlog = append(e.backlog, e.due(newest, now)...)
	e.last = newest
	e.status.dirty = true

	if over := len(e.backlog) - maxBacklog; over > 0 {
		e.backlog = slices.Delete(e.backlog, 0, over)
		e.status.skipped += int64(over)
	}

	return false
}

// newestDue returns the newest tick whose delayed time has come, zero when there is none.
func (e *entry) newestDue(now time.Time) time.Time {
	newest := e.timing.prev(e.last, now)
	if newest.IsZero() || !e.timing.fire(newest).After(now) {
		return newest
	}

	return e.timing.prev(e.last, newest.Add(-time.Second))
}

// due returns the ticks after e.last up to newest that are to be written: those in time, and of the missed ones what catchUp
// says. It goes backward, so that a year of missed ticks costs no more than a hundred.
func (e *entry) due(newest, now time.Time) []tick {
	missed := now.Add(-lateAfter)
	if e.started.After(missed) {
		missed = e.started
	}

	var ticks []tick

	for at := newest; !at.IsZero() && len(ticks) < maxBacklog; at = e.timing.prev(e.last, at.Add(-time.Second)) {
		late := !e.timing.fire(at).After(missed)

		if late && (e.spec.CatchUp == catchUpNone || e.spec.CatchUp != catchUpAll && len(ticks) > 0) {
			break
		}

		ticks = append(ticks, tick{scheduled: at, late: late})
	}

	slices.Reverse(ticks)

	return ticks
}

// Values of catchUp and overlap that decide something; the others are the defaults, last and skip.
const (
	catchUpNone  = "none"
	catchUpAll   = "all"
	overlapQueue = "queue"
	overlapAllow = "allow"
)

// wake returns when the entry has to be looked at next; zero when never.
func (e *entry) wake(now time.Time) time.Time {
	var at time.Time

	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}

	if e.invalid == "" {
		if next := e.timing.next(e.last); !next.IsZero() {
			sooner(e.timing.fire(next))
		}
	}

	if len(e.backlog) > 0 {
		if e.waits(now) {
			sooner(e.notBefore)
		} else {
			sooner(now)
		}
	}

	if e.status.dirty {
		sooner(e.status.written.Add(statusInterval))
	}

	return at
}

// waits reports whether the backlog is left alone for now. A clock that was set back does not prolong it.
func (e *entry) waits(now time.Time) bool {
	wait := e.notBefore.Sub(now)

	return wait > 0 && wait <= recheck
}

// settled returns the newest time up to which every tick was dealt with, for the durable status: a tick that still waits
// in the backlog is found again after a restart.
func (e *entry) settled() time.Time {
	if len(e.backlog) > 0 {
		return e.backlog[0].scheduled.Add(-time.Second)
	}

	return e.last
}
