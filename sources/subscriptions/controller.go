package subscriptions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// Link is the part of a connection that subscriptions need beside JetStream: a *nats.Conn.
type Link interface {
	IsConnected() bool
	RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
	SubscribeSync(subject string) (*nats.Subscription, error)
	QueueSubscribeSync(subject, queue string) (*nats.Subscription, error)
}

// Connection is what subscriptions listen on. Of JetStream consumers are made, found and removed.
type Connection struct {
	NATS      Link
	JetStream jetstream.JetStream
	// Open reports whether anybody can publish: the embedded server without credentials.
	Open bool
}

// Options configure the source.
type Options struct {
	// Connection returns the connection, nil until there is one.
	Connection func() *Connection
	Names      broker.Names
	State      state.State
	Barrier    store.Barrier
	Journal    store.Journal
	Pacer      intake.Pacer
	Metrics    *intake.Metrics
	Logger     *zap.Logger
}

// Controller runs one worker for each Subscription document.
type Controller struct {
	Options

	pending *intake.Pending
	order   *intake.Order
	timing  timing
	running sync.WaitGroup

	// The following are owned by Run's goroutine: the workers by name, and whether the documents were ever listed: before
	// that nobody's consumer is one too many.
	workers map[string]*worker
	listed  bool
}

// New returns the controller.
func New(o Options) *Controller {
	kind := resources.KindOf(resources.NewMessageEvent("").Metadata())

	return &Controller{
		Options: o, timing: defaultTiming(),
		pending: intake.NewPending(o.State, kind, resources.SourceSubscription, o.Metrics, o.Logger),
		order:   intake.NewOrder(o.State, kind),
	}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return resources.SourceSubscriptions }

// Inputs implements controller.Controller.
func (c *Controller) Inputs() []controller.Input {
	return []controller.Input{{Namespace: resources.NamespaceBridge, Type: resources.SubscriptionType, Kind: controller.InputWeak}}
}

// Outputs implements controller.Controller.
func (c *Controller) Outputs() []controller.Output {
	return []controller.Output{
		{Type: resources.SubscriptionStatusType, Kind: controller.OutputExclusive},
		{Type: resources.MessageEventType, Kind: controller.OutputShared},
	}
}

// statusInterval is how often a status is written, at most.
const statusInterval = time.Second

// Run implements controller.Controller. Its workers end with it.
func (c *Controller) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.running.Wait()
	defer cancel()

	// The runtime calls again after an error: those of the life before ended with it.
	c.workers, c.listed = map[string]*worker{}, false

	c.running.Go(func() { _ = c.pending.Run(ctx) }) // it only ends with ctx, without an error

	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			if err := c.update(ctx, r); err != nil {
				return err
			}
		case <-ticker.C:
		}

		if !c.listed {
			continue
		}

		if err := c.report(ctx, r); err != nil {
			return err
		}

		r.ResetRestartBackoff()
	}
}

// update starts workers of new documents, and stops those of changed and removed ones.
func (c *Controller) update(ctx context.Context, r controller.Runtime) error {
	kind := resources.KindOf(resources.NewSubscription("").Metadata())

	list, err := r.List(ctx, kind.List())
	if err != nil {
		return fmt.Errorf("error listing subscriptions: %w", err)
	}

	declared := map[string]*resources.Subscription{}

	for _, item := range list.Items {
		if s, ok := item.(*resources.Subscription); ok && s.Metadata().Phase() == resource.PhaseRunning {
			declared[s.Metadata().ID()] = s
		}
	}

	replaced := c.stopOthers(declared)

	for name, s := range declared {
		if c.workers[name] != nil {
			continue
		}

		// Noted before there is a consumer, so that none is ever forgotten.
		if err := c.noteStream(ctx, r, name, s.TypedSpec().Stream); err != nil {
			return err
		}

		c.workers[name] = c.start(ctx, s, replaced[name])
	}

	c.listed = true

	return nil
}

// stopOthers stops the workers whose documents changed or are gone, all at once. It returns the names whose document is
// another one now, deleted and declared anew: that one does not go on where its predecessor was.
func (c *Controller) stopOthers(declared map[string]*resources.Subscription) (replaced map[string]bool) {
	var stopped []*worker

	replaced = map[string]bool{}

	for name, w := range c.workers {
		s := declared[name]
		if s != nil && w.isOf(s) {
			continue
		}

		replaced[name] = s != nil && resources.UIDOf(s.Metadata()) != w.uid
		stopped = append(stopped, w)

		w.cancel()
		delete(c.workers, name)
	}

	for _, w := range stopped {
		<-w.done
	}

	return replaced
}

// start starts a worker of a document.
func (c *Controller) start(ctx context.Context, s *resources.Subscription, replaces bool) *worker {
	w := newWorker(c, s)
	w.replaces = replaces
	ctx, w.cancel = context.WithCancel(ctx)

	c.running.Go(func() {
		defer close(w.done)
		w.run(ctx)
	})

	return w
}

// report writes the statuses that changed and removes those of documents that are gone.
func (c *Controller) report(ctx context.Context, r controller.Runtime) error {
	for name, w := range c.workers {
		counts, condition, changed := w.take()
		if !changed {
			continue
		}

		err := r.Modify(ctx, resources.NewSubscriptionStatus(name), func(res resource.Resource) error {
			spec := res.Spec().(*resources.SubscriptionStatusSpec) //nolint:forcetypeassert // one type a kind
			spec.Counts, spec.ObservedRevision = counts, w.revision
			spec.Conditions = resources.SetCondition(spec.Conditions, condition, time.Now().UTC())

			return nil
		})
		if err != nil {
			return fmt.Errorf("error writing the status of subscription %s: %w", name, err)
		}
	}

	return c.tidy(ctx, r)
}
