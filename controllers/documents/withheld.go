package documents

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/resources"
)

// messageWithheld is said of an object that its file declares and that was deleted by force.
const messageWithheld = "was deleted by force; it comes back when the file changes"

// withheld returns the objects that a file declares and that are not made again: its content is the one that was applied
// before, they were in force then, and somebody has taken them away by force since. Nobody else takes away what a file
// declares. It is asked when a file is applied again although it has not changed, as after a restart for what was refused.
func withheld(ctx context.Context, r controller.UncachedReader, event *resources.FileEventSpec, last *resources.ApplyResult) (map[string]bool, error) {
	if last == nil || last.TypedSpec().Digest != event.Digest || last.TypedSpec().Error != "" {
		return nil, nil
	}

	var gone map[string]bool

	for _, o := range last.TypedSpec().Objects {
		if o.Outcome == resources.OutcomeRefused || o.Outcome == resources.OutcomeConflict {
			continue
		}

		object, err := declared(ctx, r, o.Kind, o.Name)
		if err != nil {
			return nil, err
		}

		if !chain.Running(object) {
			if gone == nil {
				gone = map[string]bool{}
			}

			gone[objectName(o.Kind, o.Name)] = true
		}
	}

	return gone, nil
}
