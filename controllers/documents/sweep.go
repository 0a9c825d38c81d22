package documents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// Intervals of a sweep that waits for the files of its scan, few or many of them.
const (
	settleInterval = 100 * time.Millisecond
	burstInterval  = time.Second
	// burst is the number of waiting files above which looking more often would cost more than it gains.
	burst = 200
)

// maxGuarded is how many names of held-back objects are shown.
const maxGuarded = 100

// reconcileRoot takes away what the files of a root no longer declare.
func (c *Controller) reconcileRoot(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	if err := c.declareHosts(ctx, r, ptr.ID()); err != nil {
		return err
	}

	_, err := c.sweep(ctx, logger, r, ptr.ID())

	return err
}

// sweep takes away what the files of a root no longer declare, unless that is a mass deletion that nobody confirmed. It reports whether it held something back. It asks for a requeue while a scan is not handled, and does nothing for a root
// that can't be read, is only half told, or is no longer configured.
func (c *Controller) sweep(ctx context.Context, logger *zap.Logger, r controller.QRuntime, id resource.ID) (held bool, err error) {
	lock := c.roots.of(id)
	if !lock.TryLock() { // a file is being applied; waiting for it here would stop the files behind it
		return false, controller.NewRequeueInterval(settleInterval)
	}
	defer lock.Unlock()

	root, err := chain.Get[*resources.FileRoot](ctx, r, resources.NewFileRoot(id).Metadata())
	if err != nil {
		return false, err
	}

	if !chain.Running(root) {
		return false, c.dropGuard(ctx, r, id)
	}

	if spec := root.TypedSpec(); spec.Begun != spec.Completed || !spec.Available {
		return false, nil // the source writes the root again
	}

	s, err := look(ctx, r, root.TypedSpec())
	if err != nil {
		return false, err
	}

	if s.waiting > 0 {
		return false, controller.NewRequeueInterval(waitFor(s.waiting))
	}

	gone, moved := s.orphans()

	for _, path := range resources.SortedKeys(moved) {
		if err := c.move(ctx, r, s.files[path], moved[path]); err != nil {
			return false, err
		}
	}

	if s.isMass(len(gone), c.deletions) {
		if allowed, err := c.isConfirmed(ctx, r, id, s.root.Path, gone); err != nil {
			return false, err
		} else if !allowed {
			return true, c.holdBack(ctx, logger, r, id, s, gone)
		}
	}

	if err := c.remove(ctx, logger, r, s, gone); err != nil {
		return false, err
	}

	c.confirmed.forget(id)

	return false, c.dropGuard(ctx, r, id)
}

func waitFor(files int) time.Duration {
	if files > burst {
		return burstInterval
	}

	return settleInterval
}

// move lets a file take over objects that another file under the same root no longer declares. Nothing is torn down.
func (c *Controller) move(ctx context.Context, r controller.QRuntime, event *resources.FileEvent, objects []orphan) error {
	spec := event.TypedSpec()
	d := declarationOf(spec)
	d.only, d.takeFrom = map[string]bool{}, map[string]resources.Origin{}

	for _, o := range objects {
		d.only[o.String()], d.takeFrom[o.String()] = true, o.origin
	}

	last, err := resultOf(ctx, r, event.Metadata().ID())
	if err != nil {
		return err
	}

	result, err := c.applyFile(ctx, r, spec, last, d)
	if errors.Is(err, errOther) {
		return controller.NewRequeueInterval(otherInterval)
	}

	if err != nil {
		return err
	}

	if err := saveResult(ctx, r, event.Metadata().ID(), result); err != nil {
		return fmt.Errorf("error writing the result of %s: %w", spec.Path, err)
	}

	return nil
}

// remove starts the teardown of the objects. What admission refuses stays.
func (c *Controller) remove(ctx context.Context, logger *zap.Logger, r controller.QRuntime, s *survey, gone []orphan) error {
	for _, o := range gone {
		if err := c.pacer.Wait(ctx); err != nil {
			return err
		}

		err := c.admission.Delete(ctx, r, store.Removal{Kind: o.kind, Name: o.name, Origin: o.origin, Cause: s.cause(o)})

		if refused, ok := errors.AsType[*store.AdmissionError](err); ok {
			logger.Warn("object stays although its file no longer declares it",
				zap.String("object", o.String()), zap.Stringer("origin", o.origin), zap.String("reason", refused.Message))

			err = c.note(store.Entry{
				Class: store.ClassRefused, Source: string(o.origin.Source), Name: o.origin.Name, EventID: s.cause(o),
				Object: o.String(), Reason: refused.Reason, Message: "not removed: " + refused.Message,
			})
		}

		if err != nil {
			return fmt.Errorf("error removing %s: %w", o, err)
		}
	}

	return nil
}

// holdBack writes down a mass deletion that waits for `gateway confirm`.
func (c *Controller) holdBack(ctx context.Context, logger *zap.Logger, r controller.QRuntime, id resource.ID, s *survey, gone []orphan) error {
	digest := digestOf(gone)
	names := make([]string, min(len(gone), maxGuarded))

	for i := range names {
		names[i] = gone[i].String()
	}

	fresh := false
	guard := resources.NewDeletionGuard(id)

	err := r.Modify(ctx, guard, func(res resource.Resource) error {
		spec := res.Spec().(*resources.DeletionGuardSpec) //nolint:forcetypeassert // made three lines above

		if fresh = spec.Digest != digest; fresh {
			spec.Since = time.Now()
		}

		spec.Root, spec.Digest, spec.Objects = s.root.Path, digest, names
		spec.Count, spec.Total = len(gone), len(s.objects)

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the deletion guard of %s: %w", s.root.Path, err)
	}

	if !fresh {
		return nil
	}

	logger.Warn("mass deletion is held back until it is confirmed",
		zap.String("root", s.root.Path), zap.Int("objects", len(gone)), zap.Int("of", len(s.objects)))

	return c.note(store.Entry{
		Class: store.ClassRefused, Source: resources.SourceFile, Name: s.root.Path, Reason: resources.ReasonMassDeletion,
		Message: fmt.Sprintf("%d of %d objects would be removed: `gateway confirm %s` lets it proceed", len(gone), len(s.objects), s.root.Path),
	})
}

func (c *Controller) dropGuard(ctx context.Context, r controller.QRuntime, id resource.ID) error {
	guard, err := chain.Get[*resources.DeletionGuard](ctx, r, resources.NewDeletionGuard(id).Metadata())
	if err != nil || guard == nil {
		return err
	}

	_, err = chain.Drop(ctx, r, guard.Metadata())

	return err
}

// note appends an entry to the journal.
func (c *Controller) note(e store.Entry) error {
	if err := c.journal.Append(e); err != nil {
		return fmt.Errorf("error noting %s in the journal: %w", e.Reason, err)
	}

	return nil
}
