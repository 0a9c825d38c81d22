package intake

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
)

// Untriggered takes the trigger controller's finalizer off a message-like event that is about to be created, where no trigger waits
// for events of its source and name: nobody has to look at it then, and it is one write and one look of all controllers less.
// A trigger that comes later looks at later events.
func Untriggered(ctx context.Context, st state.CoreState, event resource.Resource, source, name string) error {
	list, err := st.List(ctx, resource.NewMetadata(resources.NamespaceBridge, resources.TriggerType, "", resource.VersionUndefined))
	if err != nil {
		return fmt.Errorf("error listing the triggers: %w", err)
	}

	for _, item := range list.Items {
		trigger, ok := item.(*resources.Trigger)
		if !ok || trigger.Metadata().Phase() != resource.PhaseRunning {
			continue
		}

		if on := trigger.TypedSpec().On; on.Source == source && (on.Name == "" || on.Name == name) {
			return nil
		}
	}

	event.Metadata().Finalizers().Remove(resources.FinalizerTrigger)

	return nil
}
