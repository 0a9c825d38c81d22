package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
)

// Controller makes routes of Webhook documents and reports what they counted.
type Controller struct {
	server *Server
}

// NewController returns the controller of a server. A rebuilt runtime gets a new one of the same server.
func NewController(server *Server) *Controller { return &Controller{server: server} }

// Name implements controller.Controller.
func (c *Controller) Name() string { return resources.SourceWebhooks }

// Inputs implements controller.Controller.
func (c *Controller) Inputs() []controller.Input {
	return []controller.Input{{Namespace: resources.NamespaceBridge, Type: resources.WebhookType, Kind: controller.InputWeak}}
}

// Outputs implements controller.Controller. Events are created by the server, under this controller's name as owner.
func (c *Controller) Outputs() []controller.Output {
	return []controller.Output{
		{Type: resources.WebhookStatusType, Kind: controller.OutputExclusive},
		{Type: resources.WebhookEventType, Kind: controller.OutputShared},
	}
}

// statusInterval is how often counters are written, at most; secrets are looked at again as often.
const statusInterval = time.Second

// Run implements controller.Controller.
func (c *Controller) Run(ctx context.Context, r controller.Runtime, logger *zap.Logger) error {
	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			if err := c.compile(ctx, r, logger); err != nil {
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

// compile rebuilds the table of routes.
func (c *Controller) compile(ctx context.Context, r controller.Runtime, logger *zap.Logger) error {
	kind := resources.KindOf(resources.NewWebhook("").Metadata())

	list, err := r.List(ctx, kind.List())
	if err != nil {
		return fmt.Errorf("error listing webhooks: %w", err)
	}

	var old map[string]*route
	if loaded := c.server.routes.Load(); loaded != nil {
		old = *loaded
	}

	routes := make(map[string]*route, len(list.Items))

	for _, item := range list.Items {
		hook, ok := item.(*resources.Webhook)
		if !ok || hook.Metadata().Phase() != resource.PhaseRunning {
			continue
		}

		name, previous := hook.Metadata().ID(), old[hook.Metadata().ID()]
		if previous != nil && previous.uid == resources.UIDOf(hook.Metadata()) && previous.revision == resources.RevisionOf(hook.Metadata()) {
			routes[name] = previous

			continue
		}

		routes[name] = compile(hook, previous)

		if err := routes[name].ready(); err != nil {
			logger.Warn("a webhook takes nothing", zap.String("webhook", name), zap.Error(err))
		} else if hook.TypedSpec().Auth.None {
			logger.Warn("a webhook takes events from anybody (auth.none)", zap.String("webhook", name))
		}
	}

	c.server.routes.Store(&routes)

	return nil
}

// report writes the statuses that changed, and removes those of routes that are gone.
func (c *Controller) report(ctx context.Context, r controller.Runtime) error {
	loaded := c.server.routes.Load()
	if loaded == nil {
		return nil
	}

	routes := *loaded

	for name, route := range routes {
		counts, changed := route.take()
		condition := route.condition()

		current, err := r.Get(ctx, resources.NewWebhookStatus(name).Metadata())
		if err != nil && !state.IsNotFoundError(err) {
			return fmt.Errorf("error reading the status of webhook %s: %w", name, err)
		}

		if err == nil && !changed {
			spec := current.Spec().(*resources.WebhookStatusSpec) //nolint:forcetypeassert // one type a kind
			old := resources.FindCondition(spec.Conditions, condition.Type)

			if spec.ObservedRevision == route.revision && old != nil && old.Status == condition.Status && old.Message == condition.Message {
				continue
			}
		}

		err = r.Modify(ctx, resources.NewWebhookStatus(name), func(res resource.Resource) error {
			spec := res.Spec().(*resources.WebhookStatusSpec) //nolint:forcetypeassert // one type a kind
			spec.Counts, spec.ObservedRevision = counts, route.revision
			spec.Conditions = resources.SetCondition(spec.Conditions, condition, time.Now().UTC())

			return nil
		})
		if err != nil {
			return fmt.Errorf("error writing the status of webhook %s: %w", name, err)
		}
	}

	statuses := resources.KindOf(resources.NewWebhookStatus("").Metadata())

	list, err := r.List(ctx, statuses.List())
	if err != nil {
		return fmt.Errorf("error listing statuses of webhooks: %w", err)
	}

	for _, item := range list.Items {
		if routes[item.Metadata().ID()] != nil {
			continue
		}

		if _, err := intake.Drop(ctx, r, item.Metadata()); err != nil {
			return err
		}
	}

	return nil
}

// condition says whether the route takes events, and looks at its secrets again.
func (r *route) condition() resources.Condition {
	if err := r.ready(); err != nil {
		return resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionFalse, Reason: resources.ReasonInvalid, Message: err.Error()}
	}

	return resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionTrue, Reason: resources.ReasonReady}
}
