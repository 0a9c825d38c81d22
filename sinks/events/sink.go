package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/sinks"
	"gateway/store"
)

// Stream is the part of JetStream that the sink needs.
type Stream interface {
	PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error)
	// LastHeader returns the header of the newest message of a stream; nil where it has none.
	LastHeader(ctx context.Context, stream, filter string) (nats.Header, error)
}

// Options configure the sink.
type Options struct {
	Journal   store.Journal
	Barrier   store.Barrier
	Stream    Stream
	Names     broker.Names
	GatewayID string
	Logger    *zap.Logger
	Metrics   *sinks.SinkMetrics
}

// Limits: a batch of 256 messages of at most 64 KiB of data is 16 MiB in flight.
const (
	batchSize  = 256
	ackTimeout = 10 * time.Second
	minBackoff = 200 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Sink publishes the events of the journal.
type Sink struct {
	Options

	// cursor is the number of the last entry that was acknowledged. It is owned by Run's goroutine.
	cursor uint64
}

// New returns a sink; Run does the work.
func New(o Options) *Sink { return &Sink{Options: o} }

// Run publishes until ctx ends.
func (s *Sink) Run(ctx context.Context) error {
	if err := s.retry(ctx, s.findCursor); err != nil {
		return nil //nolint:nilerr // only ctx ends retry
	}

	for {
		if err := s.retry(ctx, s.publish); err != nil {
			return nil //nolint:nilerr // only ctx ends retry
		}

		if err := s.Journal.Wait(ctx, s.cursor); err != nil && ctx.Err() != nil {
			return nil
		}
	}
}

// retry repeats fn with a pause that doubles, until it succeeds or ctx ends.
func (s *Sink) retry(ctx context.Context, fn func(context.Context) error) error {
	for failures := 0; ; failures++ {
		err := fn(ctx)
		if err == nil {
			return nil
		}

		if ctx.Err() != nil {
			return ctx.Err()
		}

		s.Metrics.Failed.Inc()

		if s.Metrics.MayLog() {
			s.Logger.Warn("events could not be published; they are tried again", zap.Error(err))
		}

		wait := min(minBackoff<<min(failures, 10), maxBackoff)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait + rand.N(wait/2)):
		}
	}
}

// findCursor reads from the streams how far publishing came. A number that the journal does not have is of a data
// directory that is gone: publishing starts at the oldest entry.
func (s *Sink) findCursor(ctx context.Context) error {
	for stream, filter := range map[string]string{
		s.Names.EventStream(): s.Names.Prefix + ".event.>",
		s.Names.DeadStream():  s.Names.Prefix + ".dead.>",
	} {
		header, err := s.Stream.LastHeader(ctx, stream, filter)
		if err != nil {
			return fmt.Errorf("error reading the last message of %s: %w", stream, err)
		}

		if number, err := strconv.ParseUint(header.Get(headerJournal), 10, 64); err == nil {
			s.cursor = max(s.cursor, number)
		}
	}

	newest, err := s.Journal.Query(ctx, store.Query{Limit: 1})
	if err != nil {
		return fmt.Errorf("error reading the journal: %w", err)
	}

	if len(newest) == 0 || newest[len(newest)-1].Number < s.cursor {
		s.cursor = 0
	}

	return nil
}

// publish sends all entries after the cursor.
func (s *Sink) publish(ctx context.Context) error {
	for {
		// Oldest first: Query returns the newest of what is chosen, so the limit is the journal's own.
		entries, err := s.Journal.Query(ctx, store.Query{
			Classes: []store.Class{store.ClassEvent, store.ClassDead}, After: s.cursor, Limit: journalLimit,
		})
		if err != nil {
			return fmt.Errorf("error reading the journal: %w", err)
		}

		s.Metrics.Lag.Set(float64(len(entries)))

		if len(entries) == 0 {
			return nil
		}

		for len(entries) > 0 {
			n := min(batchSize, len(entries))
			if err := s.publishBatch(ctx, entries[:n]); err != nil {
				return err
			}

			entries = entries[n:]
			s.Metrics.Lag.Set(float64(len(entries)))
		}
	}
}

// journalLimit is more than the journal keeps of all sources together.
const journalLimit = 1_000_000

// publishBatch sends entries and moves the cursor over those that were acknowledged without a gap before them.
func (s *Sink) publishBatch(ctx context.Context, entries []store.Entry) error {
	if err := s.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	futures := make([]jetstream.PubAckFuture, 0, len(entries))
	sent := make([]store.Entry, 0, len(entries))

	for _, e := range entries {
		msg, err := encode(s.Names, s.GatewayID, e)
		if err != nil {
			// It will never be encodable: it must not hold up what comes after it.
			s.Logger.Error("an event can't be published and is left out", zap.Error(err))

			continue
		}

		future, err := s.Stream.PublishMsgAsync(msg)
		if err != nil {
			return fmt.Errorf("error publishing event %s: %w", e.EventID, err)
		}

		futures, sent = append(futures, future), append(sent, e)
	}

	timeout := time.NewTimer(ackTimeout)
	defer timeout.Stop()

	for i, future := range futures {
		select {
		case <-future.Ok():
			s.cursor = sent[i].Number
			s.Metrics.Published.Inc()
		case err := <-future.Err():
			return fmt.Errorf("error publishing event %s: %w", sent[i].EventID, err)
		case <-timeout.C:
			return errors.New("no acknowledgement within " + ackTimeout.String())
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	s.cursor = entries[len(entries)-1].Number

	return nil
}
