package store

import (
	"context"
	"expvar"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime/metrics"
)

// DefaultPace is the length of a controller's queue above which intake waits. COSI's queue is linear in its length, and an
// object that is taken in is put into queues about ten times: at 10,000 items that took a quarter of all CPU, and at 2,500
// it was what VMs waited for, in one goroutine. What is in the queues of placement and network comes to that of the VMs, so
// there it is three times as long. 128 keep 64 workers busy for longer than the Pacer sleeps.
const DefaultPace = 128

const (
	// paceInterval is how often a waiting Pacer looks: at a thousand VMs a second a queue shrinks by ten in it.
	paceInterval = 10 * time.Millisecond
	// patience bounds one wait: a controller that stands still slows intake down, and does not stop it.
	patience = 100 * time.Millisecond
)

// Pacer holds up those who bring work in while a controller has too much of it already.
type Pacer struct {
	limit  int64
	except []string
	parked func(controller string) int64
}

// NewPacer returns a Pacer that waits while any controller's queue is longer than limit; 0 means DefaultPace. The queues of
// the controllers in except do not count: a controller that waited for its own queue would wait for itself.
func NewPacer(limit int, except ...string) *Pacer {
	if limit <= 0 {
		limit = DefaultPace
	}

	return &Pacer{limit: int64(limit), except: except, parked: func(string) int64 { return 0 }}
}

// Discount lets what is parked in a queue until its time comes not count: a thousand VMs that wait for their host are no work that
// anybody else has to wait for. parked returns how many there are. It returns the Pacer.
func (p *Pacer) Discount(parked func(controller string) int64) *Pacer {
	p.parked = parked

	return p
}

// Wait returns when no controller's queue is above the limit, at the latest after a tenth of a second, or with an error
// when ctx ends first. It reads COSI's own metric, so the runtime has to run with metrics enabled, which it does by default.
func (p *Pacer) Wait(ctx context.Context) error {
	if !p.busy() {
		return nil
	}

	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()

	timeout := time.NewTimer(patience)
	defer timeout.Stop()

	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("error waiting for the controllers to catch up: %w", context.Cause(ctx))
		case <-timeout.C:
			return nil
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
		n, ok := kv.Value.(*expvar.Int)
		if ok && n.Value() > p.limit && !slices.Contains(p.except, kv.Key) && n.Value()-p.parked(kv.Key) > p.limit {
			busy = true
		}
	})

	return busy
}
