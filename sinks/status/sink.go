package status

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/resources"
	"gateway/sinks"
	"gateway/store"
)

// Publisher is the part of JetStream that the sink needs.
type Publisher interface {
	PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error)
}

// Options configure the sink.
type Options struct {
	State     state.State
	Barrier   store.Barrier
	Publisher Publisher
	Names     broker.Names
	GatewayID string
	Logger    *zap.Logger
	Metrics   *sinks.SinkMetrics
}

// Limits of the sink. 256 messages in flight keep a server on the same machine busy; at 2 KiB each they are half a MiB.
// An acknowledgement takes milliseconds; after ackTimeout the message is sent again under the same id.
const (
	maxInFlight = 256
	ackTimeout  = 10 * time.Second
	minBackoff  = 200 * time.Millisecond
	maxBackoff  = 10 * time.Second
	relist      = time.Second
)

// Sink publishes statuses.
type Sink struct {
	Options

	encoder encoder
	// The following are owned by Run's goroutine.
	outbox  *outbox
	flights *flights
	// failures counts attempts in a row that failed; until resume nothing is sent.
	failures int
	resume   <-chan time.Time
	// told are tombstones that only have to go: their message was acknowledged before.
	told []*resources.Tombstone
}

// outcome is what became of a message.
type outcome struct {
	entry *entry
	// status or tombstone is what was sent.
	status    resource.Resource
	tombstone *resources.Tombstone
	err       error
	// leftOut says that the message can never be sent.
	leftOut bool
}

// New returns a sink; Run does the work.
func New(o Options) *Sink {
	return &Sink{
		Options: o, encoder: encoder{names: o.Names, gateway: o.GatewayID},
	}
}

// Run publishes until ctx ends. A watch that was overrun is answered by listing again.
func (s *Sink) Run(ctx context.Context) error {
	for {
		err := s.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}

		s.Logger.Warn("the status sink lists again", zap.Error(err))

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(relist):
		}
	}
}

// watched are the kinds that the sink follows; tombstones first, so that they are known before what replaced them.
var watched = []string{"Tombstone", "VMStatus", "HostStatus"}

func (s *Sink) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// A new outbox: what becomes of the messages in flight is of no interest any more, since all is published again.
	s.outbox, s.flights = newOutbox(), newFlights()
	s.failures, s.resume, s.told = 0, nil, nil
	events := make(chan []state.Event)

	if err := s.findTombstones(ctx); err != nil {
		return err
	}

	for _, name := range watched {
		kind, _ := resources.KindByName(name)
		if err := s.State.WatchKindAggregated(ctx, kind.List(), events, state.WithBootstrapContents(true)); err != nil {
			return fmt.Errorf("error watching %s: %w", name, err)
		}
	}

	for {
		s.buryTold(ctx)

		if err := s.publish(ctx); err != nil {
			return err
		}

		s.Metrics.Lag.Set(float64(len(s.outbox.queue) + len(s.flights.list)))

		acknowledged, failed := s.flights.oldest()

		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch := <-events:
			if err := s.note(batch); err != nil {
				return err
			}
		case <-acknowledged:
			s.land(ctx, nil)
		case err := <-failed:
			s.land(ctx, err)
		case <-s.flights.sweep.C:
			s.sweep(ctx)
		case <-s.resume:
			s.resume = nil
		}
	}
}

// note takes changes into the outbox.
func (s *Sink) note(batch []state.Event) error {
	for _, event := range batch {
		switch event.Type {
		case state.Errored:
			return fmt.Errorf("the watch failed: %w", event.Error)
		case state.Created, state.Updated:
			if t, ok := event.Resource.(*resources.Tombstone); ok {
				s.noteTombstone(t)
			} else {
				s.outbox.setStatus(kindOf(event.Resource), event.Resource)
			}
		case state.Destroyed:
			if _, ok := event.Resource.(*resources.Tombstone); !ok {
				s.outbox.dropStatus(kindOf(event.Resource), event.Resource.Metadata().ID())
			}
		case state.Bootstrapped, state.Noop:
		}
	}

	return nil
}

func kindOf(r resource.Resource) string {
	if r.Metadata().Type() == resources.HostStatusType {
		return "Host"
	}

	return "VM"
}

// publish sends what the queue has, as far as messages may be in flight, after one barrier for all of it: what is told
// outside is durable, so that a number is never used again for something else.
func (s *Sink) publish(ctx context.Context) error {
	room := maxInFlight - len(s.flights.list)
	if room <= 0 || len(s.outbox.queue) == 0 || s.resume != nil {
		return nil
	}

	batch := s.outbox.take(room)

	for _, e := range batch {
		if e.status != nil && uidOf(e.status) != e.uid && e.uid != "" {
			// Another object of this name: its predecessor's tombstone may not have come through its watch yet.
			if err := s.findTombstones(ctx); err != nil {
				return err
			}

			break
		}
	}

	if err := s.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	for _, e := range batch {
		s.send(ctx, e)
	}

	return nil
}

// findTombstones reads all tombstones: there are few, and only until they are acknowledged.
func (s *Sink) findTombstones(ctx context.Context) error {
	kind, _ := resources.KindByName("Tombstone")

	list, err := s.State.List(ctx, kind.List())
	if err != nil {
		return fmt.Errorf("error listing tombstones: %w", err)
	}

	for _, r := range list.Items {
		if t, ok := r.(*resources.Tombstone); ok {
			s.noteTombstone(t)
		}
	}

	return nil
}

// noteTombstone takes a tombstone into the outbox, or notes that it only has to go.
func (s *Sink) noteTombstone(t *resources.Tombstone) {
	if s.outbox.addTombstone(t) {
		s.told = append(s.told, t)
	}
}

// send starts the next message of an entry.
func (s *Sink) send(ctx context.Context, e *entry) {
	o := outcome{entry: e}

	var (
		msg *nats.Msg
		err error
	)

	switch {
	case len(e.tombstones) > 0:
		o.tombstone = e.tombstones[0]
		msg, err = s.encoder.deleted(o.tombstone.TypedSpec())
	case e.status != nil:
		o.status = e.status
		msg, err = s.encoder.status(e.status)
	default: // what it had to say is gone
		e.flying = false
		s.outbox.forget(e)

		return
	}

	var future jetstream.PubAckFuture
	if err == nil {
		future, err = s.Publisher.PublishMsgAsync(msg)
		o.leftOut = errors.Is(err, nats.ErrMaxPayload)
	} else {
		o.leftOut = true
	}

	if err != nil {
		o.err = err
		s.finish(ctx, o)

		return
	}

	s.flights.add(o, future)
}

// finish takes an outcome: what was acknowledged is off the entry, what failed is tried again later, newest first.
func (s *Sink) finish(ctx context.Context, o outcome) {
	e := o.entry
	e.flying = false

	if o.err == nil && o.tombstone != nil {
		o.err = s.bury(ctx, o.tombstone) // one that stays is told again

		if errors.Is(o.err, errStays) {
			s.told, o.err = append(s.told, o.tombstone), nil
		}
	}

	switch {
	case o.leftOut: // it must not hold up the others; the next version may be smaller
		s.Metrics.Failed.Inc()
		s.Logger.Error("a status can't be published and is left out", zap.String("kind", e.kind), zap.String("name", e.name), zap.Error(o.err))
	case o.err != nil:
		s.Metrics.Failed.Inc()
		s.pause(e, o.err)
		s.outbox.enqueue(e)

		return
	default:
		s.failures = 0
		s.Metrics.Published.Inc()
	}

	switch {
	case o.tombstone != nil:
		e.tombstones, e.uid = e.tombstones[1:], ""
	case e.status == o.status:
		e.status, e.uid = nil, uidOf(o.status)
	default:
		e.uid = uidOf(o.status)
	}

	s.outbox.enqueue(e)
	s.outbox.forget(e)
}

// pause stops sending for a while that doubles with each failure, with jitter. A message fails because the broker is away
// or full, which is the same for all of them.
func (s *Sink) pause(e *entry, err error) {
	s.failures++

	if s.Metrics.MayLog() {
		s.Logger.Warn("a status could not be published; it is tried again", zap.String("kind", e.kind), zap.String("name", e.name), zap.Error(err))
	}

	if s.resume != nil {
		return
	}

	wait := min(minBackoff<<min(s.failures-1, 10), maxBackoff)
	s.resume = time.After(wait + rand.N(wait/2))
}

// buryTold takes tombstones away whose message was told before. What can't be taken away is tried again after a pause.
func (s *Sink) buryTold(ctx context.Context) {
	var left []*resources.Tombstone

	for _, t := range s.told {
		if s.resume != nil {
			left = append(left, t)

			continue
		}

		switch err := s.bury(ctx, t); {
		case errors.Is(err, errStays): // its end wakes the sink
			left = append(left, t)
		case err != nil:
			left, s.resume = append(left, t), time.After(minBackoff)
		}
	}

	s.told = left
}

// errStays says that a tombstone is still needed.
var errStays = errors.New("the status is still there")

// bury destroys a tombstone whose message was acknowledged. It returns errStays while the status of the object is there, which could not
// be taken away: the next process would tell of it, had it no tombstone.
func (s *Sink) bury(ctx context.Context, t *resources.Tombstone) error {
	spec := t.TypedSpec()

	ptr := resources.NewVMStatus(spec.Name).Metadata()
	if spec.Kind == "Host" {
		ptr = resources.NewHostStatus(spec.Name).Metadata()
	}

	last, err := s.State.Get(ctx, ptr)

	switch {
	case err == nil && uidOf(last) == spec.UID:
		return errStays
	case err != nil && !state.IsNotFoundError(err):
		return fmt.Errorf("error reading the status of %s/%s: %w", spec.Kind, spec.Name, err)
	}

	err = s.State.Destroy(ctx, t.Metadata(), state.WithDestroyOwner(t.Metadata().Owner()))
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error removing the tombstone of %s/%s: %w", t.TypedSpec().Kind, t.TypedSpec().Name, err)
	}

	return nil
}
