package retention

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// reconcileHold ends a hold when its VM is gone, not while it is in teardown: until then the hold says what may be done. One
// that stayed would hold another VM that happens to get the name, and nobody could release it before.
func reconcileHold(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) error {
	hold, err := chain.Get[*resources.Hold](ctx, r, ptr)
	if err != nil || hold == nil {
		return err
	}

	vm, err := chain.Get[*resources.VMConfig](ctx, r, chain.VM(hold.TypedSpec().Name))
	if err != nil || vm != nil {
		return err
	}

	return destroy(ctx, r, hold)
}
