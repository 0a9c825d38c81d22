package removal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// Controller begins the teardown of one kind. It implements controller.QController.
type Controller struct{ kind *resources.Kind }

// New returns the controller of a kind.
func New(kind *resources.Kind) *Controller { return &Controller{kind: kind} }

// Name implements controller.QController. It holds nothing, so the name is in no stored data.
func (c *Controller) Name() string { return "removal." + c.kind.Name }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs:      []controller.Input{{Namespace: c.kind.Namespace, Type: c.kind.Type, Kind: controller.InputQPrimary}},
		Outputs:     []controller.Output{{Type: c.kind.Type, Kind: controller.OutputShared}},
		Concurrency: optional.Some[uint](1),
	}
}

// MapInput implements controller.QController; there are no mapped inputs.
func (c *Controller) MapInput(context.Context, *zap.Logger, controller.QRuntime, controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return nil, nil
}

// Reconcile implements controller.QController. What is checked and what is written are one update: whoever declares the
// object again, or puts a finalizer on it, comes before it or finds it in teardown.
func (c *Controller) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	object, err := chain.Get[resource.Resource](ctx, r, ptr)
	if err != nil || object == nil || !isDue(object.Metadata()) {
		return err
	}

	err = r.Modify(ctx, c.kind.New(ptr.ID()), func(now resource.Resource) error {
		if !isDue(now.Metadata()) {
			return errChanged // also where it is gone: nothing is made in its place
		}

		now.Metadata().SetPhase(resource.PhaseTearingDown)

		return nil
	}, controller.WithModifyNoOwner())
	if err != nil && !errors.Is(err, errChanged) && !state.IsPhaseConflictError(err) {
		return fmt.Errorf("error beginning the teardown of %s %q: %w", c.kind.Name, ptr.ID(), err)
	}

	return nil
}

// errChanged says that the object is not what it was: its event leads here again.
var errChanged = errors.New("changed in between")

// isDue reports whether nobody declares and nobody uses an object whose teardown has not begun.
func isDue(md *resource.Metadata) bool {
	return md.Phase() == resource.PhaseRunning && resources.RemovalPending(md) && !resources.IsUsed(md)
}
