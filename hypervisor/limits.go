package hypervisor

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// limits bound the calls on one host, over all its connections: a goroutine that hangs outlives the connection.
type limits struct {
	// steps has room for the changing calls that are waited for.
	steps        chan struct{}
	maxAbandoned int
	gauge        prometheus.Gauge

	mu        sync.Mutex // guards abandoned, aside, and the state of all tickets
	abandoned int
	// aside counts, by object, the steps that were abandoned and have not ended.
	aside map[string]int
}

func newLimits(options PoolOptions, gauge prometheus.Gauge) *limits {
	return &limits{
		steps:        make(chan struct{}, options.Steps),
		maxAbandoned: options.Abandoned,
		gauge:        gauge,
		aside:        map[string]int{},
	}
}

// ticket is one call that was let in: it is either finished or abandoned first.
type ticket struct {
	limits   *limits
	object   string // of a step; empty for a read
	step     bool
	finished bool
	left     bool
}

// enter lets a call in, or refuses it. A step waits for a free place, as long as a step may take.
func (l *limits) enter(ctx context.Context, gone <-chan struct{}, object string, step bool) (*ticket, error) {
	l.mu.Lock()
	abandoned, aside := l.abandoned, l.aside[object]
	l.mu.Unlock()

	if abandoned >= l.maxAbandoned {
		return nil, fmt.Errorf("%w: %d earlier calls have not ended", ErrUnreachable, abandoned)
	}

	if !step {
		return &ticket{limits: l}, nil
	}

	if aside > 0 {
		return nil, fmt.Errorf("%w: an earlier call has not ended", ErrBusy)
	}

	ctx, cancel := context.WithTimeout(ctx, StepTimeout)
	defer cancel()

	select {
	case l.steps <- struct{}{}:
		return &ticket{limits: l, object: object, step: true}, nil
	case <-gone:
		return nil, ErrConnectionLost
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the host works on %d other calls", ErrBusy, cap(l.steps))
	}
}

// finish is called when the call has ended.
func (t *ticket) finish() {
	l := t.limits

	l.mu.Lock()
	defer l.mu.Unlock()

	t.finished = true

	if !t.left {
		t.release()

		return
	}

	l.abandoned--
	l.gauge.Dec()

	if !t.step {
		return
	}

	l.aside[t.object]--
	if l.aside[t.object] == 0 {
		delete(l.aside, t.object)
	}
}

// abandon sets the call aside, so that others have its place, and reports whether it did: not when it has ended.
func (t *ticket) abandon() bool {
	l := t.limits

	l.mu.Lock()
	defer l.mu.Unlock()

	if t.finished {
		return false
	}

	t.left = true
	l.abandoned++
	l.gauge.Inc()

	if t.step {
		l.aside[t.object]++
	}

	t.release()

	return true
}

// release frees the place of a step.
func (t *ticket) release() {
	if t.step {
		<-t.limits.steps
	}
}
