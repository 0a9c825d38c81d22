package documents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/internal/overrides"
	"gateway/resources"
	"gateway/store"
)

// reconcileAction executes an action once: its finalizer comes off when it is done, or when it never can be.
func (c *Controller) reconcileAction(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	action, err := chain.Get[*resources.Action](ctx, r, ptr)
	if err != nil {
		return err
	}

	if !chain.Has(action, resources.FinalizerDocuments) {
		c.actions.End(ptr.ID())

		return nil
	}

	spec, waited := action.TypedSpec(), c.actions.Since(ptr.ID(), "")
	err = c.execute(ctx, logger, r, action)

	refused, final := errors.AsType[*store.AdmissionError](err)
	if err != nil && !final {
		return err
	}

	if final && waits(refused) && waited < patience {
		return controller.NewRequeueInterval(leavingInterval)
	}

	if final {
		logger.Warn("action could not be executed", zap.String("action", ptr.ID()), zap.String("verb", spec.Verb),
			zap.String("by", spec.By), zap.String("reason", refused.Error()))

		if err := c.buryAction(spec, refused); err != nil {
			return err
		}
	}

	if err := chain.Release(ctx, r, ptr, resources.FinalizerDocuments); err != nil {
		return err
	}

	c.actions.End(ptr.ID())

	return nil
}

// execute does what the action asks for. An *AdmissionError is final, every other error is tried again. Each verb can be
// executed twice: a crash may come before the finalizer is off.
func (c *Controller) execute(ctx context.Context, logger *zap.Logger, r controller.QRuntime, action *resources.Action) error {
	spec := action.TypedSpec()

	switch spec.Verb {
	case resources.ActionApply:
		return c.executeApply(ctx, r, spec)
	case resources.ActionPatch:
		return c.executePatch(ctx, r, spec)
	case resources.ActionDelete:
		return c.executeDelete(ctx, r, spec)
	case resources.ActionSync:
		return c.executeSync(ctx, r, spec)
	case resources.ActionConfirm:
		return c.executeConfirm(ctx, logger, r, action)
	default:
		return invalid("Action", "%.64q is not a verb that can be executed", spec.Verb)
	}
}

// invalid is the error of an action that can't be executed as it is.
func invalid(object, format string, args ...any) *store.AdmissionError {
	return &store.AdmissionError{Reason: resources.ReasonInvalid, Object: object, Message: fmt.Sprintf(format, args...)}
}

// originOf returns who asked for an action, as an origin.
func originOf(spec *resources.ActionSpec) resources.Origin {
	source, name, _ := strings.Cut(spec.By, ":")

	return resources.Origin{Source: resources.OriginSource(source), Name: name}
}

func (c *Controller) executeApply(ctx context.Context, r controller.QRuntime, spec *resources.ActionSpec) error {
	documents, err := config.DecodeJSON(spec.By, spec.Body)
	if err != nil {
		return invalid("Action", "%s", err)
	}

	done, err := c.apply(ctx, r, documents, declaration{origin: originOf(spec), cause: spec.Cause, rule: spec.Rule})
	if err != nil {
		return err
	}

	return first(done.refused)
}

// executeDelete takes the target's objects away. What a file declares is refused: it would come back.
func (c *Controller) executeDelete(ctx context.Context, r controller.QRuntime, spec *resources.ActionSpec) error {
	objects, err := targets(ctx, r, spec.Target)
	if err != nil {
		return err
	}

	var refused []*store.AdmissionError

	for _, object := range objects {
		kind := resources.KindOf(object.Metadata())
		origin, rule := rights(spec, object)

		err := c.admission.Delete(ctx, r, store.Removal{
			Kind: kind, Name: object.Metadata().ID(), Origin: origin, Cause: spec.Cause, Rule: rule,
		})

		if e, ok := errors.AsType[*store.AdmissionError](err); ok {
			refused = append(refused, e)
		} else if err != nil {
			return err
		}
	}

	return first(refused)
}

// rights returns in whose name, and with what right, an action changes or deletes an object that is there. What a sender
// asks for is held by its rule. Triggers are declared by operators, who may change what came by the API and what senders
// declared, of every kind; it stays the declarer's. A file alone declares what it declares.
func rights(spec *resources.ActionSpec, object resource.Resource) (resources.Origin, *resources.ApplyRule) {
	owner := ownerOf(object)

	switch {
	case spec.Rule != nil:
		return originOf(spec), spec.Rule
	case owner.Source == resources.OriginFile:
		return resources.Origin{Source: resources.OriginAPI}, nil
	case owner.IsOperator():
		return owner, nil
	default:
		return owner, &resources.ApplyRule{Kinds: []string{resources.KindOf(object.Metadata()).Name}, Names: "*", Delete: true}
	}
}

// executeSync asks the controllers to look at the target's objects.
func (c *Controller) executeSync(ctx context.Context, r controller.QRuntime, spec *resources.ActionSpec) error {
	if spec.Target == nil {
		return invalid("Action", "sync needs a target")
	}

	err := r.Modify(ctx, resources.NewResync(syncID(spec.Target)), func(res resource.Resource) error {
		resync := res.Spec().(*resources.ResyncSpec) //nolint:forcetypeassert // made one line above
		resync.Target, resync.Cause = spec.Target.Clone(), spec.Cause
		resync.Sequence++

		return nil
	}, owned.WithModifyNoOwner())
	if err != nil {
		return fmt.Errorf("error asking for %s to be looked at: %w", spec.Target, err)
	}

	return nil
}

// syncID is the id of the Resync of a target: by name where it has one, so that repeated requests are one resource.
func syncID(t *resources.Target) string {
	name := t.Name
	if name == "" {
		name = resources.EventID(t.String())
	}

	return "sync." + strings.ToLower(t.Kind) + "." + name
}

// waits reports whether the same will succeed when an object in teardown is gone.
func waits(e *store.AdmissionError) bool { return e.Reason == resources.ReasonWaiting }

// patience is how long a message or an action waits for an object in teardown: longer than any grace period that is usual.
const patience = 10 * time.Minute

// confirmPatience is how long a confirmation waits for the scan of its root to be handled.
const confirmPatience = time.Minute

// executeConfirm lets the mass deletion proceed that has exactly the confirmed digest: the sweep looks for the action.
func (c *Controller) executeConfirm(ctx context.Context, logger *zap.Logger, r controller.QRuntime, action *resources.Action) error {
	spec := action.TypedSpec()

	if _, err := confirmedDigest(spec.Body); err != nil {
		return invalid(spec.Subject, "%s", err)
	}

	id := resources.FileID(spec.Subject)

	guard, err := chain.Get[*resources.DeletionGuard](ctx, r, resources.NewDeletionGuard(id).Metadata())
	if err != nil {
		return err
	}

	if guard == nil {
		return nil // nothing is held back: confirmed before, or mended by the files
	}

	held, err := c.sweep(ctx, logger, r, id)
	if requeue, ok := errors.AsType[*controller.RequeueError](err); ok && requeue.Err() == nil && c.actions.Since(action.Metadata().ID(), "") > confirmPatience {
		return invalid(spec.Subject, "the files of the root are not settled: confirm again")
	}

	if err != nil {
		return err
	}

	if held {
		return invalid(spec.Subject, "other objects are held back than those that were confirmed: look at them and confirm again")
	}

	return nil
}

func (c *Controller) buryAction(spec *resources.ActionSpec, refused *store.AdmissionError) error {
	origin := originOf(spec)

	c.metrics.dead.WithLabelValues(string(origin.Source)).Inc()

	return c.note(store.Entry{
		Class: store.ClassDead, Source: string(origin.Source), Name: origin.Name, EventID: spec.Cause,
		Object: refused.Object, Reason: refused.Reason, Message: spec.Verb + ": " + refused.Message, Data: spec.Body,
	})
}

// targets returns the objects that are meant and not being torn down, sorted by name. One that is named and not there is
// an error.
func targets(ctx context.Context, r controller.UncachedReader, target *resources.Target) ([]resource.Resource, error) {
	if target == nil {
		return nil, invalid("Action", "a target is needed")
	}

	kind, ok := resources.KindByName(target.Kind)
	if !ok || kind.Nature != resources.Declared {
		return nil, invalid("Action", "%.64q is not a kind", target.Kind)
	}

	if target.Name != "" {
		object, err := chain.Get[resource.Resource](ctx, r, kind.Pointer(target.Name))
		if err != nil {
			return nil, err
		}

		if !chain.Running(object) {
			return nil, invalid(target.String(), "does not exist")
		}

		return []resource.Resource{object}, nil
	}

	meant, err := overrides.Targeted(ctx, r.ListUncached, kind, target)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(meant, func(object resource.Resource) bool { return !chain.Running(object) }), nil
}

// first returns the first refusal as an error, with the number of the others; one that ends by waiting before the others.
func first(refused []*store.AdmissionError) error {
	if len(refused) == 0 {
		return nil
	}

	e := *refused[max(slices.IndexFunc(refused, waits), 0)]
	if len(refused) > 1 {
		e.Message = fmt.Sprintf("%s (and %d more)", e.Message, len(refused)-1)
	}

	return &e
}
