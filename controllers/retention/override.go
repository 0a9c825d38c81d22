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

// reconcileOverride ends an override when its VM goes, its time is over, or its document changed in the patched fields.
func (c *Controller) reconcileOverride(ctx context.Context, logger *zap.Logger, r controller.QRuntime, override *resources.Override, vm *resources.VMConfig) error {
	if !chain.Running(vm) || !chain.Running(override) {
		return destroy(ctx, r, override)
	}

	spec := override.TypedSpec()

	reason, err := over(spec, vm)
	if err != nil {
		return fmt.Errorf("error comparing the override of VM/%s with its document: %w", vm.Metadata().ID(), err)
	}

	if reason == "" {
		if spec.Until.IsZero() {
			return nil
		}

		return controller.NewRequeueInterval(time.Until(spec.Until))
	}

	if len(spec.Patch) > 0 {
		logger.Info("override ended", zap.String("vm", vm.Metadata().ID()), zap.String("by", spec.By), zap.String("reason", reason))
	}

	if spec.RestartID == "" {
		return destroy(ctx, r, override)
	}

	return keepRestart(ctx, r, override)
}

// over returns why the override has ended; empty where it has not.
func over(spec *resources.OverrideSpec, vm *resources.VMConfig) (string, error) {
	if !spec.Until.IsZero() && !time.Now().Before(spec.Until) {
		return "its time is over", nil
	}

	if len(spec.Base) == 0 || spec.Revision == resources.RevisionOf(vm.Metadata()) {
		return "", nil
	}

	base, err := resources.OverrideBase(vm.TypedSpec(), spec.Patch)
	if err != nil || bytes.Equal(base, spec.Base) {
		return "", err
	}

	return "the document changed in its fields", nil
}

// keepRestart ends the patch of an override that also asks for a restart, which the vm controller may not have done yet.
func keepRestart(ctx context.Context, r controller.QRuntime, override *resources.Override) error {
	err := r.Modify(ctx, resources.NewOverride(override.Metadata().ID()), func(res resource.Resource) error {
		spec := res.Spec().(*resources.OverrideSpec) //nolint:forcetypeassert // made one line above

		if spec.Since.Equal(override.TypedSpec().Since) { // else it is another one by now
			spec.Patch, spec.Base, spec.Until = nil, nil, time.Time{}
		}

		return nil
	}, owned.WithModifyNoOwner())
	if err != nil && !state.IsPhaseConflictError(err) {
		return fmt.Errorf("error ending the override of VM/%s: %w", override.Metadata().ID(), err)
	}

	return nil
}
