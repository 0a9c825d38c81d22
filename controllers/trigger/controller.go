package trigger

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// concurrency of reconciles: an evaluation is bounded to a second, and most take microseconds.
const concurrency = 8

// Options are what the controller needs.
type Options struct {
	Journal  store.Journal
	Registry prometheus.Registerer
}

// Controller writes Actions for events.
type Controller struct {
	journal  store.Journal
	outcomes *prometheus.CounterVec
	programs programs
	handled  handled
	waiting  chain.Waiting
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{
		journal: o.Journal,
		outcomes: chain.Register(o.Registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_trigger_evaluations_total",
			Help: "Triggers that looked at an event, by what came of it.",
		}, []string{"outcome"})),
	}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerTrigger }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	settings := controller.QSettings{
		// Triggers are read for every event; a change of one says nothing about events of the past.
		Inputs: append(objectInputs(),
			controller.Input{Namespace: resources.NamespaceBridge, Type: resources.TriggerType, Kind: controller.InputQMapped}),
		Outputs:     []controller.Output{{Type: resources.ActionType, Kind: controller.OutputShared}},
		Concurrency: optional.Some[uint](concurrency),
	}

	for _, typ := range []resource.Type{
		resources.WebhookEventType, resources.MessageEventType, resources.CronTickType, resources.FileEventType, resources.DomainEventType,
	} {
		settings.Inputs = append(settings.Inputs,
			controller.Input{Namespace: resources.NamespaceEvents, Type: typ, Kind: controller.InputQPrimary})
	}

	return settings
}

// MapInput implements controller.QController: a changed trigger leads to no event.
func (c *Controller) MapInput(context.Context, *zap.Logger, controller.QRuntime, controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return nil, nil
}

// Reconcile implements controller.QController.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	event, err := chain.Get[resource.Resource](ctx, r, ptr)
	if err != nil {
		return err
	}

	if event == nil {
		c.handled.forget(ptr)
		c.waiting.End(place(ptr))

		return nil
	}

	o := observe(event)

	switch {
	case o.attributes == nil:
		return fmt.Errorf("%s %q is not an event", ptr.Type(), ptr.ID())
	case o.message:
		if !event.Metadata().Finalizers().Has(resources.FinalizerTrigger) {
			return nil
		}
	case event.Metadata().Phase() != resource.PhaseRunning, o.stale(), c.handled.is(ptr, o.key):
		return nil
	}

	if err := c.look(ctx, logger, r, o); err != nil {
		return err
	}

	if o.message {
		return chain.Release(ctx, r, ptr, resources.FinalizerTrigger)
	}

	c.handled.note(ptr, o.key)

	return nil
}

// look lets every trigger of the event's source look at it.
func (c *Controller) look(ctx context.Context, logger *zap.Logger, r controller.QRuntime, o *observation) error {
	list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceBridge, resources.TriggerType, "", resource.VersionUndefined))
	if err != nil {
		return fmt.Errorf("error listing the triggers: %w", err)
	}

	waiting := false

	for _, item := range list.Items {
		trigger, ok := item.(*resources.Trigger)
		if !ok || trigger.Metadata().Phase() != resource.PhaseRunning || !o.concerns(trigger) {
			continue
		}

		// A crash may have come between this and the mark that the event is processed; and a state-like event stays
		// where it is, while the memory of it does not survive a restart.
		if _, seen := c.journal.Seen(journalSource, trigger.Metadata().ID(), o.key); seen {
			continue
		}

		if compiled, err := c.programs.of(trigger); err == nil && compiled.objects {
			o.waited = c.waiting.Since(place(o.event.Metadata()), o.key)

			ready, err := o.gather(ctx, r)
			if err != nil {
				return fmt.Errorf("error reading what event %s names: %w", o.attributes.ID, err)
			}

			if !ready {
				waiting = true

				continue
			}
		}

		v := c.programs.evaluate(ctx, trigger, o)
		if ctx.Err() != nil {
			return fmt.Errorf("error evaluating trigger %q: %w", trigger.Metadata().ID(), ctx.Err())
		}

		if err := c.record(ctx, logger, r, trigger, o, v); err != nil {
			return err
		}
	}

	if waiting {
		return controller.NewRequeueInterval(appliedAgain)
	}

	c.waiting.End(place(o.event.Metadata()))

	return nil
}

// record creates the actions of a verdict, and then notes it in the journal: in this order a crash in between repeats both,
// and the actions have the same ids.
func (c *Controller) record(ctx context.Context, logger *zap.Logger, r controller.Writer, trigger *resources.Trigger, o *observation, v verdict) error {
	name := trigger.Metadata().ID()

	for _, action := range v.actions {
		if err := r.Create(ctx, action); err != nil && !state.IsConflictError(err) {
			return fmt.Errorf("error creating an action of trigger %q: %w", name, err)
		}
	}

	entry := store.Entry{
		Class: store.ClassTrigger, Source: journalSource, Name: name, EventID: o.attributes.ID, Key: o.key,
		Object: "Trigger/" + name, Reason: v.reason, Message: v.message,
	}
	if err := c.journal.Append(entry); err != nil {
		return fmt.Errorf("error noting what trigger %q made of event %s: %w", name, o.attributes.ID, err)
	}

	c.outcomes.WithLabelValues(v.reason).Inc()

	if v.reason == ReasonFailed || v.reason == ReasonTooManyHops {
		logger.Warn("trigger did not fire", zap.String("trigger", name), zap.String("event", o.attributes.ID), zap.String("reason", v.message))
	}

	return nil
}
