package retention

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// lookAgain bounds the sleep until an override ends: timers do not see that the clock was set.
const lookAgain = time.Minute

// reconcileOverride ends an override when its VM goes, its time is over, or its document changed in the patched fields.
func (c *Controller) reconcileOverride(ctx context.Context, logger *zap.Logger, r controller.QRuntime, override *resources.Override, vm *resources.VMConfig) error {
	if !chain.Running(vm) || !chain.Running(override) {
		return destroy(ctx, r, override)
	}

	spec := override.TypedSpec()
	now := time.Now()

	rest, err := spec.Rest(vm, now)
	if err != nil {
		return fmt.Errorf("error comparing the override of VM/%s with its document: %w", vm.Metadata().ID(), err)
	}

	if same(spec, &rest) {
		if spec.Until.IsZero() {
			return nil
		}

		return controller.NewRequeueInterval(min(spec.Until.Sub(now), lookAgain))
	}

	reason := "the document changed in its fields"
	if !spec.Until.IsZero() && !now.Before(spec.Until) {
		reason = "its time is over"
	}

	logger.Info("override ended", zap.String("vm", vm.Metadata().ID()), zap.String("by", spec.By), zap.String("reason", reason),
		zap.Bool("inPart", !rest.IsEmpty()))

	if rest.IsEmpty() && rest.RestartID == "" {
		return destroy(ctx, r, override)
	}

	return keepRest(ctx, r, override, rest)
}

// same reports whether nothing of the override has ended. One that asks for nothing at all has.
func same(spec, rest *resources.OverrideSpec) bool {
	return bytes.Equal(spec.Patch, rest.Patch) && bytes.Equal(spec.Labels, rest.Labels) && spec.Until.Equal(rest.Until)
}

// keepRest writes what is left of an override, or of one that also asks for a restart, which the vm controller may not have done
// yet.
func keepRest(ctx context.Context, r controller.QRuntime, override *resources.Override, rest resources.OverrideSpec) error {
	err := r.Modify(ctx, resources.NewOverride(override.Metadata().ID()), func(res resource.Resource) error {
		spec := res.Spec().(*resources.OverrideSpec) //nolint:forcetypeassert // made one line above

		if spec.Since.Equal(override.TypedSpec().Since) { // else it is another one by now
			spec.Patch, spec.Base, spec.Until = rest.Patch, rest.Base, rest.Until
			spec.Labels, spec.LabelsBase = rest.Labels, rest.LabelsBase
		}

		return nil
	}, owned.WithModifyNoOwner())
	if err != nil && !state.IsPhaseConflictError(err) {
		return fmt.Errorf("error ending the override of VM/%s: %w", override.Metadata().ID(), err)
	}

	return nil
}
