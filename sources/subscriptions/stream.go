package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	// maxAckPending bounds what is delivered and not acknowledged: at 1 MiB a message a gigabyte on the server's side, and
	// on ours no more than one pull.
	maxAckPending = 1000
	// pull is how many messages one request asks for, pullBytes how many bytes.
	pull      = 256
	pullBytes = 64 << 20
	// heartbeat finds a server that is gone within two of them.
	heartbeat = time.Second
	// inFlight bounds the messages that wait for the store's barrier at once.
	inFlight = 256
	// ackTimeout bounds what is done for one message after it was stored.
	ackTimeout = 10 * time.Second
)

// listenStream listens to a stream through a durable consumer of the subscription's name.
func (w *worker) listenStream(ctx context.Context, connection *Connection) error {
	consumer, err := w.consumer(ctx, connection.JetStream)
	if err != nil {
		return err
	}

	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(pull, pullBytes), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("error pulling from stream %s: %w", w.spec.Stream, err)
	}
	defer messages.Stop()

	w.link(connection)

	slots := make(chan struct{}, inFlight)
	failures := make(chan error, 1)

	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))

		switch {
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			w.link(connection)

			continue
		case err != nil:
			return fmt.Errorf("error pulling from stream %s: %w", w.spec.Stream, err)
		}

		w.link(connection)

		if err := w.takeStream(ctx, msg, slots, failures); err != nil {
			return err
		}

		select {
		case err := <-failures:
			return err
		default:
		}
	}
}

// consumer makes the durable consumer, or brings the one that is there up to date. Where it starts is decided once, when
// it is made.
func (w *worker) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: w.durable(), Description: "gateway subscription " + w.name,
		FilterSubject: w.spec.Subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.spec.AckWait.Std(),
		// Attempts are counted here: a message that the server gave up would stay in the stream, seen by nobody.
		MaxDeliver: -1, MaxAckPending: maxAckPending,
	}

	switch w.spec.Deliver.Policy {
	case "all":
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	case "last":
		cfg.DeliverPolicy = jetstream.DeliverLastPolicy
	case "since":
		start := time.Now().Add(-w.spec.Deliver.Since.Std())
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
	default:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}

	existing, err := js.Consumer(ctx, w.spec.Stream, cfg.Durable)

	switch {
	case err == nil:
		old := existing.CachedInfo().Config
		cfg.DeliverPolicy, cfg.OptStartTime = old.DeliverPolicy, old.OptStartTime
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, fmt.Errorf("error looking up stream %s: %w", w.spec.Stream, err)
	}

	consumer, err := js.CreateOrUpdateConsumer(ctx, w.spec.Stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("error making the consumer of stream %s: %w", w.spec.Stream, err)
	}

	return consumer, nil
}

// durable is the consumer's name: two gateways may listen to one stream.
func (w *worker) durable() string { return w.c.Names.Prefix + "-" + w.name }

// removeConsumer removes the consumer of a document that is gone, so that the stream keeps nothing for it.
func (w *worker) removeConsumer() {
	w.mu.Lock()
	removed := w.removed
	w.mu.Unlock()

	connection := w.c.Connection()
	if !removed || connection == nil || w.spec.Stream == "" {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()

	err := connection.JetStream.DeleteConsumer(ctx, w.spec.Stream, w.durable())
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		w.c.Logger.Warn("the consumer of a removed subscription is left on its stream", zap.String("subscription", w.name), zap.Error(err))
	}
}

// takeStream stores a message's event and has it acknowledged behind the barrier, so that the next message need not wait
// for the disk.
func (w *worker) takeStream(ctx context.Context, msg jetstream.Msg, slots chan struct{}, failures chan<- error) error {
	if err := w.waitForRoom(ctx); err != nil {
		return err
	}

	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("error reading a message of stream %s: %w", w.spec.Stream, err)
	}

	// A stream that is made anew counts from one again: the time tells its messages apart.
	delivery := fmt.Sprintf("%s/%d/%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano())

	events, err := w.events(msg.Subject(), msg.Headers(), msg.Data(), delivery)
	if err != nil {
		return w.refuse(ctx, msg, meta, delivery, err)
	}

	if err := w.create(ctx, events); err != nil {
		return w.later(msg, meta, err)
	}

	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}

	go func() {
		defer func() { <-slots }()

		limited, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()

		err := w.c.Barrier.Barrier(limited)
		if err == nil {
			err = msg.DoubleAck(limited)
		} else {
			err = errors.Join(err, w.later(msg, meta, err))
		}

		if err == nil || ctx.Err() != nil {
			return
		}

		// Not acknowledged: it is delivered again after AckWait, and is the same event then.
		select {
		case failures <- fmt.Errorf("error acknowledging a message of stream %s: %w", w.spec.Stream, err):
		default:
		}
	}()

	return nil
}

// later asks for a message again after a delay that grows with its deliveries: what failed is ours, not the message's.
func (w *worker) later(msg jetstream.Msg, meta *jetstream.MsgMetadata, cause error) error {
	w.c.Logger.Warn("a message could not be stored; it is asked for again", zap.String("subscription", w.name), zap.Error(cause))

	if err := msg.NakWithDelay(delayOf(meta.NumDelivered)); err != nil {
		return fmt.Errorf("error asking for a message again: %w", err)
	}

	return nil
}

// delayOf doubles from one second to a minute.
func delayOf(deliveries uint64) time.Duration {
	return min(time.Second<<min(deliveries-1, 10), time.Minute)
}

// refuse handles a message that can't be taken: again with growing delays, then it is a dead letter. Its reason and its
// data are durable before the stream forgets it.
func (w *worker) refuse(ctx context.Context, msg jetstream.Msg, meta *jetstream.MsgMetadata, delivery string, cause error) error {
	if meta.NumDelivered < uint64(w.spec.MaxDeliver) { //nolint:gosec // validated: 1 to 100
		if err := msg.NakWithDelay(delayOf(meta.NumDelivered)); err != nil {
			return fmt.Errorf("error asking for a message again: %w", err)
		}

		return nil
	}

	if err := w.dead(msg.Subject(), delivery, msg.Data(), cause); err != nil {
		return err
	}

	if err := w.c.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	if err := msg.TermWithReason(cause.Error()); err != nil {
		return fmt.Errorf("error ending a message: %w", err)
	}

	return nil
}
