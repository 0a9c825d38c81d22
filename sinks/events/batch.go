package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/store"
)

// flight is a message that is under way.
type flight struct {
	jetstream.PubAckFuture

	entry *store.Entry
}

// publishBatch sends entries of one stream and moves the cursor over those that were acknowledged without a gap before them.
func (s *Sink) publishBatch(ctx context.Context, entries []store.Entry) error {
	if err := s.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	flights := make([]flight, 0, len(entries))
	previous := ""

	var failed error

	for i := range entries {
		future, err := s.send(&entries[i], previous)
		if err != nil {
			failed = fmt.Errorf("error publishing event %s: %w", entries[i].EventID, err)

			break
		}

		if future != nil {
			flights = append(flights, flight{PubAckFuture: future, entry: &entries[i]})
			previous = messageID(&entries[i])
		}
	}

	if err := s.land(ctx, flights); err != nil {
		return err
	}

	if failed != nil {
		return failed
	}

	s.cursor = entries[len(entries)-1].Number

	return nil
}

// send starts a message. It names the one before it, so that the stream refuses it when that one was lost on the way: a
// connection that fails and comes back in the middle of a batch leaves no gap. A message that can never be sent is left
// out: it must not hold up what comes after it.
func (s *Sink) send(e *store.Entry, previous string) (jetstream.PubAckFuture, error) {
	var err error

	for _, withData := range []bool{true, false} {
		var msg *nats.Msg

		msg, err = encode(s.Names, s.GatewayID, e, withData)
		if err != nil {
			break
		}

		if previous != "" {
			msg.Header.Set(jetstream.ExpectedLastMsgIDHeader, previous)
		}

		future, failed := s.Stream.PublishMsgAsync(msg)
		if err = failed; !errors.Is(err, nats.ErrMaxPayload) {
			return future, err
		}
	}

	s.Logger.Error("an event can't be published and is left out", zap.String("event", e.EventID), zap.Error(err))

	return nil, nil
}

// land waits for the acknowledgements, in order.
func (s *Sink) land(ctx context.Context, flights []flight) error {
	timeout := time.NewTimer(ackTimeout)
	defer timeout.Stop()

	for _, f := range flights {
		select {
		case <-f.Ok():
			s.cursor = f.entry.Number
			s.Metrics.Published.Inc()
		case err := <-f.Err():
			return fmt.Errorf("error publishing event %s: %w", f.entry.EventID, err)
		case <-timeout.C:
			return errors.New("no acknowledgement within " + ackTimeout.String())
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}
