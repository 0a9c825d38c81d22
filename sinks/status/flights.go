package status

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// sweepEvery is how often all messages in flight are looked at. Acknowledgements come in the order of the messages, so only the
// oldest is listened to; one that is lost, or comes late, holds up what is known of those behind it no longer than this.
const sweepEvery = 100 * time.Millisecond

// flight is a message under way.
type flight struct {
	outcome

	future jetstream.PubAckFuture
	sent   time.Time
}

// hasLanded reports whether the outcome is there, without waiting for it.
func (f *flight) hasLanded(now time.Time) bool {
	select {
	case <-f.future.Ok():
		return true
	default:
	}

	select {
	case f.err = <-f.future.Err():
		return true
	default:
	}

	if now.Sub(f.sent) >= ackTimeout {
		f.err = errors.New("no acknowledgement within " + ackTimeout.String())

		return true
	}

	return false
}

// flights are the messages under way, oldest first. They are owned by the sink's goroutine: a goroutine for each would cost as much as
// encoding the message.
type flights struct {
	list []*flight
	// sweep fires while there are any.
	sweep *time.Timer
	armed bool
}

func newFlights() *flights {
	sweep := time.NewTimer(sweepEvery)
	sweep.Stop()

	return &flights{sweep: sweep}
}

func (f *flights) add(o outcome, future jetstream.PubAckFuture) {
	f.list = append(f.list, &flight{outcome: o, future: future, sent: time.Now()})
	f.arm()
}

func (f *flights) arm() {
	if !f.armed && len(f.list) > 0 {
		f.sweep.Reset(sweepEvery)
		f.armed = true
	}
}

// oldest returns the channels that tell of the oldest message; nil: there is none.
func (f *flights) oldest() (<-chan *jetstream.PubAck, <-chan error) {
	if len(f.list) == 0 {
		return nil, nil
	}

	return f.list[0].future.Ok(), f.list[0].future.Err()
}

// pop removes the oldest message.
func (f *flights) pop() *flight {
	oldest := f.list[0]
	f.list[0] = nil
	f.list = f.list[1:]

	return oldest
}

// land finishes the oldest message, and those behind it that have landed too: acknowledgements come in bursts, and what they make room
// for goes out behind one barrier.
func (s *Sink) land(ctx context.Context, err error) {
	oldest := s.flights.pop()
	oldest.err = err
	s.finish(ctx, oldest.outcome)

	for now := time.Now(); len(s.flights.list) > 0 && s.flights.list[0].hasLanded(now); {
		s.finish(ctx, s.flights.pop().outcome)
	}
}

// sweep finishes all messages that have landed, in whatever order.
func (s *Sink) sweep(ctx context.Context) {
	var (
		now    = time.Now()
		landed []outcome
	)

	s.flights.list = slices.DeleteFunc(s.flights.list, func(f *flight) bool {
		over := f.hasLanded(now)
		if over {
			landed = append(landed, f.outcome)
		}

		return over
	})

	for _, o := range landed {
		s.finish(ctx, o)
	}

	s.flights.armed = false
	s.flights.arm()
}
