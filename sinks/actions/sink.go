package actions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/resources"
	"gateway/sinks"
	"gateway/store"
)

// Publisher sends one message and returns when it is kept, or, where no stream listens on the subject, sent.
type Publisher interface {
	Publish(ctx context.Context, msg *nats.Msg) error
}

// Options configure the sink.
type Options struct {
	State     state.State
	Barrier   store.Barrier
	Journal   store.Journal
	Publisher Publisher
	Names     broker.Names
	Logger    *zap.Logger
	Metrics   *sinks.SinkMetrics
}

const (
	// maxInFlight is how many messages are sent at once, each on a subject of its own: a subject whose stream does not
	// answer takes one of them, for sendTimeout.
	maxInFlight = 16
	sendTimeout = 10 * time.Second
	// maxWaiting bounds the actions that wait while NATS is away or refuses them, each a resource of a kilobyte or so: above
	// it those that fail are dead letters.
	maxWaiting = 10_000
	// relist is the pause before a watch that was overrun is set up again.
	relist = time.Second
)

// Sink publishes what triggers ask for: in the order of the actions on each subject, and the subjects independently of each
// other.
type Sink struct {
	Options

	// The following are owned by Run's goroutine.
	lanes *lanes
	// starting collects actions until the list of those that are there is complete, to be put in their order; nil after that.
	starting []*resources.Action
	inFlight int

	done    chan outcome
	running sync.WaitGroup
}

// outcome is what became of the first action of a lane.
type outcome struct {
	lane *lane
	err  error
}

// New returns a sink; Run does the work.
func New(o Options) *Sink {
	return &Sink{Options: o, lanes: newLanes(), done: make(chan outcome, maxInFlight)}
}

// Run publishes until ctx ends. A watch that was overrun is answered by listing again, as at the start.
func (s *Sink) Run(ctx context.Context) error {
	defer s.running.Wait()

	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("the actions sink lists again", zap.Error(err))
		}

		select {
		case <-ctx.Done():
		case <-time.After(relist):
		}
	}

	return nil
}

// watch publishes actions until ctx ends or the watch fails.
func (s *Sink) watch(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()

	events := make(chan []state.Event)
	kind := resources.KindOf(resources.NewAction("").Metadata())
	s.starting = []*resources.Action{}

	if err := s.State.WatchKindAggregated(watching, kind.List(), events, state.WithBootstrapContents(true)); err != nil {
		return fmt.Errorf("error watching actions: %w", err)
	}

	for {
		s.send(ctx)
		s.Metrics.Lag.Set(float64(len(s.lanes.known)))

		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch := <-events:
			for _, event := range batch {
				if err := s.note(event); err != nil {
					return err
				}
			}
		case o := <-s.done:
			s.finish(o)
		case <-s.lanes.due():
			s.lanes.wake(time.Now())
		}
	}
}

// note takes an action that is to be published into the lane of its subject.
func (s *Sink) note(event state.Event) error {
	switch event.Type {
	case state.Errored:
		return fmt.Errorf("the watch failed: %w", event.Error)
	case state.Bootstrapped:
		slices.SortFunc(s.starting, func(a, b *resources.Action) int {
			return cmp.Or(a.Metadata().Created().Compare(b.Metadata().Created()), cmp.Compare(a.Metadata().ID(), b.Metadata().ID()))
		})

		for _, action := range s.starting {
			s.lanes.add(action)
		}

		s.starting = nil
	case state.Created, state.Updated:
		action, ok := event.Resource.(*resources.Action)

		switch {
		case !ok || !action.Metadata().Finalizers().Has(resources.FinalizerPublish):
		case s.starting != nil:
			s.starting = append(s.starting, action)
		default:
			s.lanes.add(action)
		}
	case state.Destroyed, state.Noop:
	}

	return nil
}

// send starts as many messages as may be in flight.
func (s *Sink) send(ctx context.Context) {
	for s.inFlight < maxInFlight {
		l := s.lanes.next()
		if l == nil {
			return
		}

		action, tolerated := l.waiting[0], anyFailure

		switch {
		case len(s.lanes.known)-s.inFlight > maxWaiting:
			tolerated = noFailure
		case l.failures.refused+1 >= maxRefusals:
			tolerated = awayOnly
		}

		s.inFlight++

		s.running.Go(func() {
			s.done <- outcome{lane: l, err: s.handle(ctx, action, tolerated)} // has room for all
		})
	}
}

func (s *Sink) finish(o outcome) {
	s.inFlight--

	if o.err == nil {
		s.lanes.succeeded(o.lane)

		return
	}

	s.Metrics.Failed.Inc()

	if s.Metrics.MayLog() {
		s.Logger.Warn("a trigger's message could not be sent; it is tried again", zap.String("subject", o.lane.subject), zap.Error(o.err))
	}

	s.lanes.failed(o.lane, isRefusal(o.err), time.Now())
}

// tolerance is which failures are tried again.
type tolerance int

const (
	anyFailure tolerance = iota
	awayOnly             // not a refusal
	noFailure
)

func (t tolerance) isFinal(err error) bool {
	return t == noFailure || t == awayOnly && isRefusal(err)
}

// handle publishes one action's message and takes the finalizer off. A subject that can't be sent to is final, and so is a
// failure that is not tolerated any more: then the message is a dead letter.
func (s *Sink) handle(ctx context.Context, action *resources.Action, tolerated tolerance) error {
	id := action.Metadata().ID()

	// What the watch told may be old: it must not be sent again.
	current, err := s.State.Get(ctx, action.Metadata())
	if state.IsNotFoundError(err) || err == nil && !current.Metadata().Finalizers().Has(resources.FinalizerPublish) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("error reading action %s: %w", id, err)
	}

	spec := action.TypedSpec()
	entry := store.Entry{Class: store.ClassPublished, Source: "trigger", Name: spec.By, EventID: spec.Cause, Object: spec.Subject}

	err = s.Names.ValidatePublish(spec.Subject)
	final := err != nil

	if err == nil {
		err = s.publish(ctx, id, spec)
		final = err != nil && tolerated.isFinal(err)
	}

	switch {
	case ctx.Err() != nil && err != nil:
		return err
	case err == nil:
		s.Metrics.Published.Inc()
	case final:
		entry.Class, entry.Reason, entry.Message = store.ClassDead, resources.ReasonInvalid, err.Error()
		s.Logger.Warn("a trigger's message can't be sent", zap.String("by", spec.By), zap.Error(err))
	default:
		return err
	}

	if err := s.Journal.Append(entry); err != nil {
		return fmt.Errorf("error writing the journal: %w", err)
	}

	err = s.State.RemoveFinalizer(ctx, action.Metadata(), resources.FinalizerPublish)
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error removing the finalizer of action %s: %w", id, err)
	}

	return nil
}

func (s *Sink) publish(ctx context.Context, id resource.ID, spec *resources.ActionSpec) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()

	if err := s.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	if err := s.Publisher.Publish(ctx, message(id, spec)); err != nil {
		return fmt.Errorf("error publishing to %s: %w", spec.Subject, err)
	}

	return nil
}
