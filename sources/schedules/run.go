package schedules

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// TypeTick is the CloudEvents type of a tick.
const TypeTick = "gateway.schedule.tick.v1"

// run is one life of the source. Only Run's goroutine uses it.
type run struct {
	Options

	r       controller.Runtime
	logger  *zap.Logger
	entries map[string]*entry
}

// load makes the entries those of the declared schedules.
func (x *run) load(ctx context.Context) error {
	list, err := safe.ReaderListAll[*resources.Schedule](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing schedules: %w", err)
	}

	declared := map[string]bool{}

	for schedule := range list.All() {
		if schedule.Metadata().Phase() != resource.PhaseRunning {
			continue
		}

		declared[schedule.Metadata().ID()] = true

		if err := x.declare(ctx, schedule); err != nil {
			return err
		}
	}

	for name := range x.entries {
		if !declared[name] {
			delete(x.entries, name)
		}
	}

	return x.dropUndeclared(ctx, declared)
}

// declare takes over a schedule that is new or was changed.
func (x *run) declare(ctx context.Context, schedule *resources.Schedule) error {
	name, spec, now := schedule.Metadata().ID(), schedule.TypedSpec().DeepCopy(), x.now()

	e := x.entries[name]
	if e == nil {
		e = &entry{name: name}

		if err := x.restore(ctx, e, &spec); err != nil {
			return err
		}

		x.entries[name] = e
	} else if describe(&e.spec) != describe(&spec) {
		e.reanchor(now)
	} else if e.revision == resources.RevisionOf(schedule.Metadata()) && reflect.DeepEqual(e.spec, spec) {
		return nil
	}

	t, err := newTiming(name, &spec)

	e.invalid = ""
	if err != nil {
		e.invalid = err.Error()
	}

	e.timing, e.spec, e.revision = t, spec, resources.RevisionOf(schedule.Metadata())
	e.status.dirty = true

	return nil
}

// restore finds where a schedule stood when the gateway, or this source, stopped. One that was edited meanwhile, or is new,
// starts now.
func (x *run) restore(ctx context.Context, e *entry, spec *resources.ScheduleSpec) error {
	e.reanchor(x.now())

	known, err := safe.ReaderGetByID[*resources.ScheduleStatus](ctx, x.r, e.name)
	if state.IsNotFoundError(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("error reading the status of schedule %q: %w", e.name, err)
	}

	e.status.last, e.status.skipped = known.TypedSpec().DeepCopy().Last, known.TypedSpec().Skipped

	if known.TypedSpec().Timing != describe(spec) {
		return nil
	}

	e.last = known.TypedSpec().Anchor

	last, err := safe.ReaderGetByID[*resources.CronTick](ctx, x.r, e.name)
	if state.IsNotFoundError(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("error reading the last tick of schedule %q: %w", e.name, err)
	}

	e.run = last.TypedSpec().Event.Received
	if last.TypedSpec().Scheduled.After(e.last) {
		e.last = last.TypedSpec().Scheduled
	}

	return nil
}

// dropUndeclared removes what is left of schedules that are no more.
func (x *run) dropUndeclared(ctx context.Context, declared map[string]bool) error {
	for _, kind := range []resource.Kind{resources.NewCronTick("").Metadata(), resources.NewScheduleStatus("").Metadata()} {
		list, err := x.r.List(ctx, kind)
		if err != nil {
			return fmt.Errorf("error listing %s: %w", kind.Type(), err)
		}

		for _, res := range list.Items {
			if declared[res.Metadata().ID()] && res.Metadata().Phase() == resource.PhaseRunning {
				continue
			}

			if _, err := intake.Drop(ctx, x.r, res.Metadata()); err != nil {
				return err
			}
		}
	}

	return nil
}

// step does what is due now and returns how long nothing is.
func (x *run) step(ctx context.Context) (time.Duration, error) {
	pending := 0

	for _, e := range x.entries {
		now := x.now()

		if e.advance(now) {
			x.logger.Warn("the clock was set back by more than a day: the schedule starts anew", zap.String("schedule", e.name))
		}

		if len(e.backlog) > 0 && !e.waits(now) {
			if err := x.fire(ctx, e, now); err != nil {
				return 0, err
			}
		}

		if err := e.writeStatus(ctx, x.r, now); err != nil {
			return 0, err
		}

		pending += len(e.backlog)
	}

	x.Metrics.Pending(resources.SourceSchedule, pending)

	now, sleep := x.now(), maxSleep

	for _, e := range x.entries {
		if at := e.wake(now); !at.IsZero() {
			sleep = min(sleep, at.Sub(now))
		}
	}

	return max(sleep, time.Millisecond), nil
}

// fire deals with the oldest tick of the backlog: it is written, skipped, or left for later.
func (x *run) fire(ctx context.Context, e *entry, now time.Time) error {
	if e.spec.Overlap != overlapAllow {
		running, err := isRunning(ctx, x.r, e.spec.Target, e.run, now)
		if err != nil {
			return err
		}

		if running && e.spec.Overlap == overlapQueue {
			e.notBefore = now.Add(recheck)

			return nil
		}

		if running {
			return x.skip(e, now)
		}
	}

	due := e.backlog[0]

	attributes, err := x.write(ctx, e, due, now)

	switch {
	case state.IsPhaseConflictError(err): // the tick of an earlier schedule of this name is on its way out
		e.notBefore = now.Add(recheck)

		return nil
	case err != nil:
		return fmt.Errorf("error writing the tick of schedule %q: %w", e.name, err)
	}

	e.backlog = e.backlog[1:]
	e.run, e.notBefore = now, now.Add(spacing)
	e.status.fired(due.scheduled, attributes.ID, now)
	x.Metrics.Received(resources.SourceSchedule)

	message := ""
	if due.late {
		message = "late"
	}

	return intake.Record(x.Journal, attributes, attributes.Target.String(), message)
}

// write writes the tick. Its id is the same whenever the same tick of the same schedule is written.
func (x *run) write(ctx context.Context, e *entry, due tick, now time.Time) (*resources.EventAttributes, error) {
	var written resources.EventAttributes

	err := x.r.Modify(ctx, resources.NewCronTick(e.name), func(res resource.Resource) error {
		spec := res.(*resources.CronTick).TypedSpec() //nolint:forcetypeassert // Modify gives what it was given
		id := resources.EventID(resources.SourceSchedule, e.name, due.scheduled.UTC().Format(time.RFC3339))

		spec.Event = resources.EventAttributes{
			ID: id, Source: resources.SourceSchedule, Name: e.name, Type: TypeTick, Subject: "schedule/" + e.name,
			Time: due.scheduled, Received: now, Sequence: spec.Event.Sequence + 1, Target: e.spec.Target.Clone(),
		}
		spec.Scheduled, spec.Late = due.scheduled, due.late
		written = spec.Event.Clone()

		return nil
	}, controller.WithExpectedPhase(resource.PhaseRunning))

	return &written, err
}

// skip drops the oldest tick of the backlog because the run before it is still going.
func (x *run) skip(e *entry, now time.Time) error {
	due := e.backlog[0]
	e.backlog = e.backlog[1:]
	e.status.skipped++
	e.status.dirty = true
	x.Metrics.Refused(resources.SourceSchedule, "overlap")

	if x.Journal == nil {
		return nil
	}

	err := x.Journal.Append(store.Entry{
		Time: now, Class: store.ClassRefused, Source: resources.SourceSchedule, Name: e.name, Reason: "overlap",
		EventID: resources.EventID(resources.SourceSchedule, e.name, due.scheduled.UTC().Format(time.RFC3339)),
		Message: "the run before it was still going",
	})
	if err != nil {
		return fmt.Errorf("error recording a skipped tick of schedule %q: %w", e.name, err)
	}

	return nil
}
