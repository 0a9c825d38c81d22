package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
)

// passHold lets an operator's forced deletion pass a hold of the object: without it the object would stay in teardown until
// somebody releases it. The teardown has begun by then, so that nothing else is done to what was held. A sender can't pass
// what an operator holds.
func (o *Operations) passHold(ctx context.Context, c Caller, kind *resources.Kind, name string) error {
	if c.Rule != nil {
		return nil
	}

	_, err := o.state.UpdateWithConflicts(ctx, resources.NewHold(resources.HoldID(kind.Name, name)).Metadata(), func(r resource.Resource) error {
		r.Spec().(*resources.HoldSpec).Reason = resources.HoldForced //nolint:forcetypeassert // one type a kind

		return nil
	})
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error letting the deletion of %s/%s pass its hold: %w", kind.Name, name, err)
	}

	return nil
}

// kept names the volumes that stay on its host when a VM has gone.
func (o *Operations) kept(ctx context.Context, kind *resources.Kind, name string) ([]string, error) {
	if kind.Name != "VM" {
		return nil, nil
	}

	config, err := specOf[resources.VMConfigSpec](ctx, o.state, kind.Name, name)
	if err != nil || config == nil {
		return nil, err
	}

	status, err := o.vmStatus(ctx, name)
	if err != nil {
		return nil, err
	}

	var kept []string

	for _, disk := range status.DisksMade {
		if !removed(config, disk) {
			kept = append(kept, fmt.Sprintf("the volume of disk %s on host %s", disk, status.Host))
		}
	}

	return kept, nil
}

// removed reports whether a disk's volume goes with its VM.
func removed(spec *resources.VMConfigSpec, disk string) bool {
	return slices.ContainsFunc(spec.Disks, func(d resources.Disk) bool { return d.Name == disk && d.OnDelete == resources.OnDeleteRemove })
}
