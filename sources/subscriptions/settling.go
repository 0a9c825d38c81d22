package subscriptions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gateway/store"
)

const (
	// inFlight bounds the messages that wait for the store's barrier, or for the server's answer, at once.
	inFlight = 256
	// settleTimeout bounds what is done for one message after it was stored.
	settleTimeout = 10 * time.Second
)

// settling acknowledges messages once their events are durable.
type settling struct {
	slots    chan struct{}
	failures chan error
	running  sync.WaitGroup
	settled  atomic.Bool
}

func newSettling() *settling {
	return &settling{slots: make(chan struct{}, inFlight), failures: make(chan error, 1)}
}

// settle calls finish behind the barrier, without waiting for that. It waits for a free slot. What fails is delivered again
// after AckWait, and is the same event then.
func (s *settling) settle(ctx context.Context, barrier store.Barrier, finish func(context.Context) error) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}

	s.running.Go(func() {
		defer func() { <-s.slots }()

		limited, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()

		err := barrier.Barrier(limited)
		if err == nil {
			err = finish(limited)
		}

		if err == nil {
			s.settled.Store(true)
		}

		if err == nil || ctx.Err() != nil {
			return
		}

		select {
		case s.failures <- fmt.Errorf("error acknowledging a message: %w", err):
		default: // one is enough
		}
	})

	return nil
}

// failed returns an error when one could not be settled.
func (s *settling) failed() error {
	select {
	case err := <-s.failures:
		return err
	default:
		return nil
	}
}

// works reports whether any message was settled.
func (s *settling) works() bool { return s.settled.Load() }

// wait waits for all, at most settleTimeout.
func (s *settling) wait() { s.running.Wait() }
