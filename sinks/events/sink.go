package events

import (
	"context"
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

// Limits. A page is what is read from the journal at once: 512 entries of at most 64 KiB of data and as much of attributes
// are 64 MiB; the usual ones are one. A batch is what is in flight.
const (
	pageSize   = 512
	batchSize  = 256
	wholeStep  = 1 << 40
	ackTimeout = 10 * time.Second
	minBackoff = 200 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Sink publishes the events of the journal.
type Sink struct {
	Options

	// The following are owned by Run's goroutine.
	// cursor is the number of the last entry that was acknowledged, or has nothing to publish.
	cursor uint64
	// step is how far a page reaches behind the cursor.
	step uint64
}

// New returns a sink; Run does the work.
func New(o Options) *Sink { return &Sink{Options: o, step: wholeStep} }

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

// retry repeats fn with a pause that doubles while nothing gets through, until it succeeds or ctx ends.
func (s *Sink) retry(ctx context.Context, fn func(context.Context) error) error {
	for failures := 0; ; failures++ {
		before := s.cursor

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

		if s.cursor != before {
			failures = 0
		}

		wait := min(minBackoff<<min(failures, 10), maxBackoff)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait + rand.N(wait/2)):
		}
	}
}

// findCursor reads from the streams how far publishing came. A message whose entry the journal does not have is of a data
// directory that is gone: publishing starts at the oldest entry. Where a backup was restored, it was published what is in it.
func (s *Sink) findCursor(ctx context.Context) error {
	cursor, unknown := uint64(0), false

	for stream, filter := range map[string]string{
		s.Names.EventStream(): s.Names.Prefix + ".event.>",
		s.Names.DeadStream():  s.Names.Prefix + ".dead.>",
	} {
		header, err := s.Stream.LastHeader(ctx, stream, filter)
		if err != nil {
			return fmt.Errorf("error reading the last message of %s: %w", stream, err)
		}

		number, err := strconv.ParseUint(header.Get(headerJournal), 10, 64)
		if err != nil || number == 0 {
			continue
		}

		entries, err := s.Journal.Query(ctx, store.Query{After: number - 1, Before: number + 1, Limit: 1})
		if err != nil {
			return fmt.Errorf("error reading the journal: %w", err)
		}

		if len(entries) == 1 && messageID(&entries[0]) == header.Get(headerMessageID) {
			cursor = max(cursor, number)
		} else {
			unknown = true
		}
	}

	if cursor == 0 && unknown {
		var err error
		if cursor, err = s.restored(ctx); err != nil {
			return err
		}
	}

	s.cursor = cursor

	return nil
}

// restored returns the number of the entry that says that the journal is of a backup; 0: it is not.
func (s *Sink) restored(ctx context.Context) (uint64, error) {
	entries, err := s.Journal.Query(ctx, store.Query{Source: store.SourceStore, Limit: 1})
	if err != nil || len(entries) == 0 {
		return 0, err
	}

	return entries[0].Number, nil
}

// publish sends all entries after the cursor.
func (s *Sink) publish(ctx context.Context) error {
	for {
		newest, err := s.Journal.Query(ctx, store.Query{Limit: 1})
		if err != nil {
			return fmt.Errorf("error reading the journal: %w", err)
		}

		if len(newest) == 0 || newest[0].Number <= s.cursor {
			s.Metrics.Lag.Set(0)

			return nil
		}

		last := newest[0].Number
		s.Metrics.Lag.Set(float64(last - s.cursor))

		entries, until, err := s.page(ctx, last)
		if err != nil {
			return err
		}

		for len(entries) > 0 {
			n := run(entries)
			if err := s.publishBatch(ctx, entries[:n]); err != nil {
				return err
			}

			entries = entries[n:]
		}

		s.cursor = until // what is between is of classes that nobody is told of
	}
}

// page returns the oldest entries after the cursor, and the number up to which they are all. The journal answers with the
// newest ones of what is asked for: where those are too many, fewer numbers are asked for.
func (s *Sink) page(ctx context.Context, last uint64) (entries []store.Entry, until uint64, err error) {
	for {
		until = min(last, s.cursor+s.step)

		entries, err = s.Journal.Query(ctx, store.Query{
			Classes: []store.Class{store.ClassEvent, store.ClassDead}, After: s.cursor, Before: until + 1, Limit: pageSize,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("error reading the journal: %w", err)
		}

		if len(entries) < pageSize {
			s.step = min(2*s.step, wholeStep)
			entries, err = s.withoutPurged(ctx, entries)

			return entries, until, err
		}

		s.step = (until - s.cursor) / 2
	}
}

// run returns how many of the entries, from the first, are of one stream and fit in a batch. Only when they were
// acknowledged the next ones are sent: so the newest message of both streams is as far as publishing came.
func run(entries []store.Entry) int {
	n := 1
	for n < min(batchSize, len(entries)) && entries[n].Class == entries[0].Class {
		n++
	}

	return n
}
