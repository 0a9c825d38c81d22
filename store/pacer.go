package store

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime/metrics"
)

// DefaultPace is the length of a controller's queue above which intake waits. COSI's queue is linear in its length: at
// 10,000 items a push costs 0.1 ms, and one goroutine serves all controllers. 5,000 leaves room for the writers that
// passed the pacer at the same moment.
const DefaultPace = 5000

// paceInterval is how often a waiting Pacer looks: at 16 workers and 1 ms a reconcile a queue shrinks by 160 items in it.
const paceInterval = 10 * time.Millisecond

// Pacer holds up those who bring work in while a controller has too much of it already.
type Pacer struct {
	limit int64
}

// NewPacer returns a Pacer that waits while any controller's queue is longer than limit; 0 means DefaultPace.
func NewPacer(limit int) *Pacer {
	if limit <= 0 {
		limit = DefaultPace
	}

	return &Pacer{limit: int64(limit)}
}

// Wait returns when no controller's queue is above the limit, or with an error when ctx ends first. It reads COSI's own
// metric, so the runtime has to run with metrics enabled, which it does by default.
func (p *Pacer) Wait(ctx context.Context) error {
	if !p.busy() {
		return nil
	}

	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("error waiting for the controllers to catch up: %w", context.Cause(ctx))
		case <-ticker.C:
		}

		if !p.busy() {
			return nil
		}
	}
}

func (p *Pacer) busy() bool {
	busy := false

	metrics.QControllerQueueLength.Do(func(kv expvar.KeyValue) {
		if n, ok := kv.Value.(*expvar.Int); ok && n.Value() > p.limit {
			busy = true
		}
	})

	return busy
}
