package documents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
)

// Intervals of files that wait.
const (
	// conflictInterval is how often a file with conflicts looks whether the other declarer is gone. Few files have any.
	conflictInterval = 5 * time.Second
	// leavingInterval is the same where the object in the way is being torn down.
	leavingInterval = time.Second
	// otherInterval is how often a file that is not the one of its event is read again. The next event comes earlier, unless
	// the file was changed back.
	otherInterval = time.Second
)

// reconcileFile applies a file's documents, and forgets it when it is gone. What it declared is removed by the sweep of its
// root.
func (c *Controller) reconcileFile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	event, err := chain.Get[*resources.FileEvent](ctx, r, ptr)
	if err != nil || event == nil {
		return err
	}

	lock := c.roots.of(resources.FileID(event.TypedSpec().Root))

	lock.RLock()
	defer lock.RUnlock()

	if !chain.Running(event) {
		return c.forgetFile(ctx, r, ptr)
	}

	held, err := chain.Hold[*resources.FileEvent](ctx, r, ptr, resources.FinalizerDocuments)
	if err != nil || !held {
		return err
	}

	result, err := resultOf(ctx, r, ptr.ID())
	if err != nil {
		return err
	}

	again, err := c.pending(ctx, r, event, result)
	if err != nil {
		return err
	}

	if again != nil {
		spec, err := c.applyFile(ctx, r, event.TypedSpec(), result, *again)
		if errors.Is(err, errOther) {
			return controller.NewRequeueInterval(otherInterval)
		}

		if err != nil {
			return err
		}

		if err := saveResult(ctx, r, ptr.ID(), spec); err != nil {
			return fmt.Errorf("error writing the result of %s: %w", event.TypedSpec().Path, err)
		}

		logFaults(logger, event.TypedSpec().Path, result, &spec)

		if result, err = resultOf(ctx, r, ptr.ID()); err != nil {
			return err
		}
	}

	return c.waitForConflicts(ctx, r, result)
}

func (c *Controller) forgetFile(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) error {
	c.visited.forget(ptr.ID())

	if _, err := chain.Drop(ctx, r, resources.NewApplyResult(ptr.ID()).Metadata()); err != nil {
		return err
	}

	return chain.Release(ctx, r, ptr, resources.FinalizerDocuments)
}

// pending returns what of the file is to be applied, nil where nothing is.
func (c *Controller) pending(ctx context.Context, r controller.UncachedReader, event *resources.FileEvent, result *resources.ApplyResult) (*declaration, error) {
	spec := event.TypedSpec()
	d := declarationOf(spec)

	first := c.visited.first(event.Metadata().ID())
	if !isHandled(event, result) || result.TypedSpec().Digest != spec.Digest {
		return &d, nil
	}

	if first && !settledWell(result.TypedSpec()) {
		return &d, nil
	}

	d.only = map[string]bool{}

	for _, o := range result.TypedSpec().Objects {
		if o.Outcome != resources.OutcomeConflict {
			continue
		}

		object, err := declared(ctx, r, o.Kind, o.Name)
		if err != nil {
			return nil, err
		}

		// Also where it is ours by now, or somebody else's, so that the result names the right one.
		if object == nil || chain.Running(object) && (ownerOf(object).Same(d.origin) || resources.RemovalPending(object.Metadata()) ||
			!strings.Contains(o.Message, ownerOf(object).String())) {
			d.only[objectName(o.Kind, o.Name)] = true
		}
	}

	if len(d.only) == 0 {
		return nil, nil
	}

	return &d, nil
}

// declarationOf is that of a file's event.
func declarationOf(event *resources.FileEventSpec) declaration {
	return declaration{
		origin: resources.Origin{Source: resources.OriginFile, Name: event.Path, Root: event.Root}, cause: event.Event.ID,
	}
}

// settledWell reports whether nothing of the file was refused.
func settledWell(result *resources.ApplyResultSpec) bool {
	for _, o := range result.Objects {
		if o.Outcome == resources.OutcomeRefused || o.Outcome == resources.OutcomeConflict {
			return false
		}
	}

	return result.Error == ""
}

// applyFile applies the file and returns its result. The error is errOther when the file is not the one of the event. A file
// that is wrong leaves what its last good version declared.
func (c *Controller) applyFile(ctx context.Context, r controller.QRuntime, event *resources.FileEventSpec, last *resources.ApplyResult, d declaration) (resources.ApplyResultSpec, error) {
	spec := resources.ApplyResultSpec{
		Origin: d.origin.String(), Root: event.Root, Sequence: event.Event.Sequence, Digest: event.Digest, Time: time.Now(),
	}
	if last != nil {
		spec.Objects = last.TypedSpec().Objects
	}

	data, err := readFile(event)
	if errors.Is(err, errTooLarge) {
		spec.Error = event.Path + ": " + err.Error()

		return spec, nil
	}

	if err != nil {
		return spec, err
	}

	documents, err := config.Decode(event.Path, data)
	if err != nil {
		spec.Error = err.Error()

		return spec, nil
	}

	if d.withheld, err = withheld(ctx, r, event, last); err != nil {
		return spec, err
	}

	done, err := c.apply(ctx, r, documents, d)
	if err != nil {
		return spec, fmt.Errorf("error applying %s: %w", event.Path, err)
	}

	if d.only == nil {
		spec.Objects = done.objects
	} else {
		spec.Objects = merged(spec.Objects, done.objects)
	}

	return spec, nil
}

// merged returns the objects with those replaced that were applied again.
func merged(objects, again []resources.AppliedObject) []resources.AppliedObject {
	newer := map[string]resources.AppliedObject{}
	for _, o := range again {
		newer[objectName(o.Kind, o.Name)] = o
	}

	out := make([]resources.AppliedObject, len(objects))

	for i, o := range objects {
		out[i] = o
		if n, ok := newer[objectName(o.Kind, o.Name)]; ok {
			out[i] = n
		}
	}

	return out
}

// waitForConflicts asks for another look while objects of the file are declared elsewhere.
func (c *Controller) waitForConflicts(ctx context.Context, r controller.UncachedReader, result *resources.ApplyResult) error {
	if result == nil {
		return nil
	}

	wait := time.Duration(0)

	for _, o := range result.TypedSpec().Objects {
		if o.Outcome != resources.OutcomeConflict {
			continue
		}

		object, err := declared(ctx, r, o.Kind, o.Name)
		if err != nil {
			return err
		}

		if !chain.Running(object) {
			return controller.NewRequeueInterval(leavingInterval)
		}

		wait = conflictInterval
	}

	if wait == 0 {
		return nil
	}

	return controller.NewRequeueInterval(wait)
}

// declared reads a declared object; nil where there is none.
func declared(ctx context.Context, r controller.UncachedReader, kind, name string) (resource.Resource, error) {
	k, ok := resources.KindByName(kind)
	if !ok {
		return nil, fmt.Errorf("%q is not a kind", kind)
	}

	return chain.Get[resource.Resource](ctx, r, k.Pointer(name))
}

// ownerOf returns who declared an object; what carries no origin was written by the embedding program, an operator.
func ownerOf(object resource.Resource) resources.Origin {
	if o := resources.OriginOf(object.Metadata()); !o.IsZero() {
		return o
	}

	return resources.Origin{Source: resources.OriginAPI}
}
