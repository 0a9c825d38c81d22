package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/internal/overrides"
	"gateway/resources"
)

// maxRun ends a run that never settles by itself: a VM that can't converge must not stop its schedule for good.
const maxRun = time.Hour

// isRunning reports whether the run that the last tick began is still going: whether a VM that the target names is not
// converged and stopped being so at the tick or after it. A VM that was not converged before is no part of the run, and one
// that does not change because of a tick ends the run at once. Schedules whose target is not VMs have no runs.
func isRunning(ctx context.Context, r controller.UncachedReader, target *resources.Target, since, now time.Time) (bool, error) {
	if since.IsZero() || now.Sub(since).Abs() > maxRun || target == nil || target.Kind != "VM" {
		return false, nil
	}

	names, err := targetNames(ctx, r, target)
	if err != nil {
		return false, err
	}

	for _, name := range names {
		res, err := r.GetUncached(ctx, resource.NewMetadata(resources.NamespaceVMs, resources.VMStatusType, name, resource.VersionUndefined))
		if state.IsNotFoundError(err) {
			continue
		}

		if err != nil {
			return false, fmt.Errorf("error reading the status of VM %q: %w", name, err)
		}

		status, ok := res.(*resources.VMStatus)
		if !ok {
			return false, fmt.Errorf("the status of VM %q has the Go type %T", name, res)
		}

		c := resources.FindCondition(status.TypedSpec().Conditions, resources.ConditionConverged)
		if c != nil && c.Status != resources.ConditionTrue && !c.Since.Before(since) {
			return true, nil
		}
	}

	return false, nil
}

// targetNames returns the names of the VMs that a target means.
func targetNames(ctx context.Context, r controller.UncachedReader, target *resources.Target) ([]string, error) {
	if target.Name != "" {
		return []string{target.Name}, nil
	}

	list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceVMs, resources.VMConfigType, "", resource.VersionUndefined))
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs of target %s: %w", target, err)
	}

	labels, err := overrides.Labels(ctx, r.ListUncached)
	if err != nil {
		return nil, err
	}

	var names []string

	for _, vm := range list.Items {
		if target.Selector.Matches(labels.Of(vm.Metadata())) {
			names = append(names, vm.Metadata().ID())
		}
	}

	return names, nil
}
