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

// Connection is what subscriptions listen on.
type Connection struct {
	NATS      *nats.Conn
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
	// workers by name are owned by Run's goroutine.
	workers map[string]*worker
	running sync.WaitGroup
}

// New returns the controller.
func New(o Options) *Controller {
	kind := resources.KindOf(resources.NewMessageEvent("").Metadata())

	return &Controller{
		Options: o, workers: map[string]*worker{},
		pending: intake.NewPending(o.State, kind, resources.SourceSubscription, o.Metrics, o.Logger),
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

	for name, w := range c.workers {
		if s := declared[name]; s == nil || !w.isOf(s) {
			w.stop(s == nil || resources.UIDOf(s.Metadata()) != w.uid)
			delete(c.workers, name)
		}
	}

	for name, s := range declared {
		if c.workers[name] == nil {
			c.workers[name] = c.start(ctx, s)
		}
	}

	return nil
}

// start starts a worker of a document.
func (c *Controller) start(ctx context.Context, s *resources.Subscription) *worker {
	w := newWorker(c, s)
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

	kind := resources.KindOf(resources.NewSubscriptionStatus("").Metadata())

	list, err := r.List(ctx, kind.List())
	if err != nil {
		return fmt.Errorf("error listing statuses of subscriptions: %w", err)
	}

	for _, item := range list.Items {
		if c.workers[item.Metadata().ID()] != nil {
			continue
		}

		if _, err := intake.Drop(ctx, r, item.Metadata()); err != nil {
			return err
		}
	}

	return nil
}
