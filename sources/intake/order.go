package intake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
)

// Order numbers the messages of a source in the order in which they are taken in: microseconds since 1970, and one more than the
// last where the clock stands or was set back. So a message that waits is not overtaken by a later one, whatever the clock did
// between them. It is safe for concurrent use.
type Order struct {
	state state.CoreState
	kind  *resources.Kind

	mu    sync.Mutex // guards the following
	begun bool
	last  uint64
}

// NewOrder returns the order of the events of a kind: it begins after those that are in the state when the first number is asked for.
func NewOrder(st state.CoreState, kind *resources.Kind) *Order { return &Order{state: st, kind: kind} }

// Next returns the number of the next message. It fails where the events that are there can't be listed.
func (o *Order) Next(ctx context.Context) (uint64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if !o.begun {
		list, err := o.state.List(ctx, o.kind.List())
		if err != nil {
			return 0, fmt.Errorf("error listing the events that are there: %w", err)
		}

		for _, item := range list.Items {
			o.last = max(o.last, resources.AttributesOf(item).Sequence)
		}

		o.begun = true
	}

	o.last = max(o.last+1, uint64(max(time.Now().UnixMicro(), 0)))

	return o.last, nil
}
