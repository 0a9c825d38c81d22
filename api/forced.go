package api

import (
	"context"
	"fmt"

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
