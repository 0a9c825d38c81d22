// Package outputs removes what a controller wrote. Controllers and sources, which may not import each other, both call it.
package outputs

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
)

// Drop tears down and destroys an output of the calling controller. It reports whether the output is gone: false while
// somebody's finalizer is on it.
func Drop(ctx context.Context, r controller.Writer, ptr resource.Pointer) (bool, error) {
	ready, err := r.Teardown(ctx, ptr)

	switch {
	case state.IsNotFoundError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("error tearing down %s %q: %w", ptr.Type(), ptr.ID(), err)
	case !ready:
		return false, nil
	}

	switch err := r.Destroy(ctx, ptr); {
	case err == nil, state.IsNotFoundError(err):
		return true, nil
	case state.IsConflictError(err): // a finalizer came in between
		return false, nil
	default:
		return false, fmt.Errorf("error destroying %s %q: %w", ptr.Type(), ptr.ID(), err)
	}
}
