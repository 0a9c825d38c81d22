package intake

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/internal/outputs"
)

// Drop tears down and destroys an output of the calling source. It reports whether the output is gone: false while
// somebody's finalizer is on it, in which case an input of kind DestroyReady wakes the source when the last one went.
func Drop(ctx context.Context, r controller.Writer, ptr resource.Pointer) (bool, error) {
	return outputs.Drop(ctx, r, ptr)
}
