package chain

import (
	"context"
	"iter"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// MapResync returns the VMs that a Resync asks for, and its cause. known are the names of all VMs that the controller has
// seen, from which a slice is taken; one that it has not seen is in its queue anyway. targeted reports whether somebody
// asked for these VMs, instead of the slow safety net.
func MapResync(ctx context.Context, r controller.UncachedReader, ptr resource.Pointer, known iter.Seq[string]) (vms []resource.Pointer, cause string, targeted bool, err error) {
	resync, err := Get[*resources.Resync](ctx, r, ptr)
	if err != nil || resync == nil {
		return nil, "", false, err
	}

	spec := resync.TypedSpec()

	if spec.Target != nil {
		vms, err = TargetVMs(ctx, r, spec.Target)

		return vms, spec.Cause, true, err
	}

	for name := range known {
		if spec.Contains(name, nil) {
			vms = append(vms, VM(name))
		}
	}

	return vms, spec.Cause, false, nil
}
