package chain

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/internal/outputs"
)

// Get reads a resource past any cache. It returns nil without an error when there is none.
func Get[R resource.Resource](ctx context.Context, r controller.UncachedReader, ptr resource.Pointer) (R, error) {
	var none R

	got, err := r.GetUncached(ctx, ptr)
	if state.IsNotFoundError(err) {
		return none, nil
	}

	if err != nil {
		return none, fmt.Errorf("error reading %s %q: %w", ptr.Type(), ptr.ID(), err)
	}

	typed, ok := got.(R)
	if !ok {
		return none, fmt.Errorf("%s %q has the Go type %T", ptr.Type(), ptr.ID(), got)
	}

	return typed, nil
}

// Resource is what Running and Has take: a pointer to a typed resource, possibly nil.
type Resource interface {
	comparable
	resource.Resource
}

// Running reports whether r exists and is not being torn down.
func Running[R Resource](r R) bool {
	var none R

	return r != none && r.Metadata().Phase() == resource.PhaseRunning
}

// Has reports whether r exists and carries the finalizer.
func Has[R Resource](r R, finalizer resource.Finalizer) bool {
	var none R

	return r != none && r.Metadata().Finalizers().Has(finalizer)
}

// Hold puts the finalizer on the resource and reports whether it may be used: whether it exists and was still running
// after the finalizer stood. COSI lets one add a finalizer to a resource in teardown, so it is read again.
func Hold[R Resource](ctx context.Context, r controller.QRuntime, ptr resource.Pointer, finalizer resource.Finalizer) (bool, error) {
	current, err := Get[R](ctx, r, ptr)
	if err != nil || !Running(current) {
		return false, err
	}

	if Has(current, finalizer) {
		return true, nil
	}

	if err := r.AddFinalizer(ctx, ptr, finalizer); err != nil {
		if state.IsNotFoundError(err) {
			return false, nil
		}

		return false, fmt.Errorf("error adding finalizer %s to %s %q: %w", finalizer, ptr.Type(), ptr.ID(), err)
	}

	if current, err = Get[R](ctx, r, ptr); err != nil {
		return false, err
	}

	if !Running(current) {
		return false, Release(ctx, r, ptr, finalizer)
	}

	return true, nil
}

// Release takes the finalizer off the resource. One that is gone is success.
func Release(ctx context.Context, r controller.Writer, ptr resource.Pointer, finalizer resource.Finalizer) error {
	if err := r.RemoveFinalizer(ctx, ptr, finalizer); err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error removing finalizer %s from %s %q: %w", finalizer, ptr.Type(), ptr.ID(), err)
	}

	return nil
}

// Drop tears down and destroys an output of the calling controller. It reports whether the output is gone: false while
// somebody's finalizer is on it.
func Drop(ctx context.Context, r controller.Writer, ptr resource.Pointer) (bool, error) {
	return outputs.Drop(ctx, r, ptr)
}
