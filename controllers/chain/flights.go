package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gateway/hypervisor"
)

// maxPatient is how many workers wait for one call as long as its patience says. The others look again later once it takes
// longer than a host that makes progress.
const maxPatient = 4

// ErrUnderWay says that a call takes longer than a worker waits for it: look again later.
var ErrUnderWay = errors.New("still under way")

// Flights runs slow calls in goroutines of their own, at most one at a time for each key, so that a host that hangs takes
// no worker of a controller away from the VMs of other hosts. The zero value is not usable: see NewFlights.
type Flights[K comparable] struct {
	// patience is how long after its start a call is waited for, by a few; by all others for hypervisor.Patience. A call that is older is
	// not waited for at all, so a hanging one costs all workers together no more than this.
	patience time.Duration

	mu      sync.Mutex // guards the following
	running map[K]*Flight
	ctx     context.Context //nolint:containedctx // the life of the flights, which outlive the reconcile that began them
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// Flight is one call.
type Flight struct {
	started  time.Time
	patience time.Duration
	done     chan struct{}
	err      error // written before done is closed
	// patient counts those that wait for longer than hypervisor.Patience.
	patient atomic.Int64
}

// NewFlights returns flights that are waited for as long as patience.
func NewFlights[K comparable](patience time.Duration) *Flights[K] {
	return &Flights[K]{patience: patience, running: map[K]*Flight{}}
}

// Begin starts call, or joins the call of this key that runs already. call's context ends with Close.
func (f *Flights[K]) Begin(key K, call func(context.Context) error) *Flight {
	f.mu.Lock()
	defer f.mu.Unlock()

	if known := f.running[key]; known != nil {
		return known
	}

	if f.ctx == nil {
		f.ctx, f.cancel = context.WithCancel(context.Background())
	}

	flight := &Flight{started: time.Now(), patience: f.patience, done: make(chan struct{})}
	f.running[key] = flight
	ctx := f.ctx

	f.wg.Go(func() {
		defer close(flight.done)

		flight.err = recovered(ctx, call)

		f.mu.Lock()
		defer f.mu.Unlock()

		delete(f.running, key)
	})

	return flight
}

// recovered runs call and turns a panic into an error: COSI recovers only those of its own goroutines.
func recovered(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()

	return call(ctx)
}

// Wait returns the outcome of the call, or ErrUnderWay when it is not there in time.
func (f *Flight) Wait(ctx context.Context) error {
	brief := min(f.patience, hypervisor.Patience)
	if err := f.waitUntil(ctx, f.started.Add(brief)); !errors.Is(err, ErrUnderWay) {
		return err
	}

	defer f.patient.Add(-1)

	if f.patient.Add(1) > maxPatient {
		return ErrUnderWay
	}

	return f.waitUntil(ctx, f.started.Add(f.patience))
}

func (f *Flight) waitUntil(ctx context.Context, end time.Time) error {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()

	select {
	case <-f.done:
		return f.err
	default:
	}

	select {
	case <-f.done:
		return f.err
	case <-timer.C:
		return ErrUnderWay
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all calls and waits for them. The flights can be used again afterwards: a controller may be started twice.
func (f *Flights[K]) Close() {
	f.mu.Lock()
	if f.cancel != nil {
		f.cancel()
	}

	f.ctx, f.cancel = nil, nil
	f.mu.Unlock()

	f.wg.Wait()
}
