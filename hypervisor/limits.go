package hypervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// limits bound the calls on one host, over all its connections: a goroutine that hangs outlives the connection.
type limits struct {
	host string
	// steps are the places of changing calls, reads those of calls that are answered from the daemon's memory.
	steps, reads *places
	maxAbandoned int
	gauge        prometheus.Gauge
	sentAway     prometheus.Counter

	mu        sync.Mutex // guards abandoned, aside, the places, and the state of all tickets
	abandoned int
	// aside counts, by object, the steps that were abandoned and have not ended.
	aside map[string]int
}

func newLimits(host string, options PoolOptions, metrics *metrics) *limits {
	return &limits{
		host:         host,
		steps:        newPlaces(options.Steps, options.Steps), // what ends is followed at once
		reads:        newPlaces(options.Reads, 0),
		maxAbandoned: options.Abandoned,
		gauge:        metrics.abandoned.WithLabelValues(host),
		sentAway:     metrics.sentAway.WithLabelValues(host),
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
	// places are those of its kind; nil: it needs none. began is when it came, placed when it got one.
	places        *places
	began, placed time.Time
}

// placesOf returns the places of a call's kind. What has a deadline of its own has none, and neither has what only asks whether
// the host is there.
func (l *limits) placesOf(c call) *places {
	switch {
	case c.step:
		return l.steps
	case c.many || c.unplaced || c.flow != nil:
		return nil
	default:
		return l.reads
	}
}

// enter lets a call in, or refuses it. It may wait for a place.
func (l *limits) enter(ctx context.Context, gone <-chan struct{}, c call) (*ticket, error) {
	t := &ticket{limits: l, step: c.step, places: l.placesOf(c), began: time.Now()}
	if c.step {
		t.object = c.object
	}

	if err := l.begin(t); err != nil || t.places == nil {
		return t, err
	}

	if err := l.place(ctx, gone, t, c.timeout()); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()

		t.places.leave(t, time.Now())

		return nil, err
	}

	return t, nil
}

// begin notes a call, unless too many never ended.
func (l *limits) begin(t *ticket) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.abandoned >= l.maxAbandoned {
		return fmt.Errorf("%w: %d earlier calls have not ended", ErrUnreachable, l.abandoned)
	}

	if t.step && l.aside[t.object] > 0 {
		return fmt.Errorf("%w: an earlier call has not ended", ErrBusy)
	}

	if t.places != nil {
		t.places.calls = append(t.places.calls, t)
	}

	return nil
}

// finish is called when the call has ended; answered reports whether it was the host that ended it.
func (t *ticket) finish(answered bool) {
	l := t.limits

	l.mu.Lock()
	defer l.mu.Unlock()

	t.finished = true

	if answered && t.places != nil {
		t.places.answered = time.Now()
	}

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

// release frees the place of a call.
func (t *ticket) release() {
	if t.places != nil {
		t.places.leave(t, time.Now())
	}
}
