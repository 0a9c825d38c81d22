package schedules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

const (
	// statusInterval bounds how often a status is written.
	statusInterval = time.Second
	// shown is how many next and last ticks a status has.
	shown = 5
)

// status is what an entry counts between two writes of its ScheduleStatus.
type status struct {
	counts  resources.SourceCounts
	skipped int64
	last    []time.Time // newest first, at most shown
	dirty   bool
	written time.Time
}

// fired notes a tick that was written.
func (s *status) fired(scheduled time.Time, id string, now time.Time) {
	s.counts.Received++
	s.counts.LastEvent, s.counts.LastReceived = id, now
	s.last = slices.Insert(s.last, 0, scheduled)
	s.last = s.last[:min(len(s.last), shown)]
	s.dirty = true
}

// next returns the ticks to come, the nearest first.
func (e *entry) next() []time.Time {
	if e.invalid != "" {
		return nil
	}

	var next []time.Time

	for at := e.timing.next(e.last); !at.IsZero() && len(next) < shown; at = e.timing.next(at) {
		next = append(next, at)
	}

	return next
}

// condition says whether the schedule works.
func (e *entry) condition(next []time.Time) resources.Condition {
	c := resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionTrue, Reason: resources.ReasonReady}

	switch {
	case e.invalid != "":
		c.Status, c.Reason, c.Message = resources.ConditionFalse, resources.ReasonInvalid, e.invalid
	case len(e.backlog) > 0:
		c.Message = fmt.Sprintf("%d ticks wait for the run before them", len(e.backlog))
	case len(next) == 0 && len(e.status.last) == 0:
		c.Status, c.Reason, c.Message = resources.ConditionFalse, resources.ReasonInvalid, "the time was over when the schedule came into force"
	case len(next) == 0:
		c.Message = "done: nothing more is due"
	}

	return c
}

// writeStatus writes the entry's ScheduleStatus, at most once in statusInterval.
func (e *entry) writeStatus(ctx context.Context, r controller.Writer, now time.Time) error {
	if !e.status.dirty || now.Sub(e.status.written).Abs() < statusInterval {
		return nil
	}

	next := e.next()

	err := r.Modify(ctx, resources.NewScheduleStatus(e.name), func(res resource.Resource) error {
		spec := res.(*resources.ScheduleStatus).TypedSpec() //nolint:forcetypeassert // Modify gives what it was given
		spec.Counts = e.status.counts
		spec.Conditions = resources.SetCondition(spec.Conditions, e.condition(next), now)
		spec.ObservedRevision = e.revision
		spec.Next, spec.Last = next, slices.Clone(e.status.last)
		spec.Skipped = e.status.skipped
		spec.Timing, spec.Anchor = describe(&e.spec), e.settled()

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the status of schedule %q: %w", e.name, err)
	}

	e.status.dirty, e.status.written = false, now

	return nil
}
