package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gateway/resources"
)

const (
	// maxAckPending bounds what is delivered and not acknowledged: at 1 MiB a message a gigabyte on the server's side, and
	// on ours no more than one pull.
	maxAckPending = 1000
	// pull is how many messages one request asks for, pullBytes how many bytes.
	pull      = 256
	pullBytes = 64 << 20
	// heartbeat finds a server that is gone within two of them; streamCheck has to be longer than that.
	heartbeat   = time.Second
	streamCheck = 3 * time.Second
	// askTimeout bounds a question to the server.
	askTimeout = 5 * time.Second
	// maxPatience bounds the messages that can't be taken and wait to be delivered again, each of which counts as not
	// acknowledged: above it they are dead letters at once, so that they never hold up the good ones.
	maxPatience = maxAckPending / 2
)

// errNoRoom says that too much is pending for longer than messages may wait here.
var errNoRoom = errors.New("too much is pending")

// listenStream listens to a stream through a durable consumer of the subscription's name.
func (w *worker) listenStream(ctx context.Context, connection *Connection) error {
	consumer, err := w.consumer(ctx, connection.JetStream)
	if err != nil {
		return err
	}

	settling := newSettling()
	defer settling.wait()

	for {
		err := w.pull(ctx, connection, consumer, settling)
		if !errors.Is(err, errNoRoom) {
			return err
		}

		if _, err := w.waitForRoom(ctx, 0); err != nil {
			return err
		}
	}
}

// pull takes messages in until it fails, or there is no room for half of the time after which the server would deliver again
// what waits here: then it is better left there.
func (w *worker) pull(ctx context.Context, connection *Connection, consumer jetstream.Consumer, settling *settling) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(pull, pullBytes), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("error pulling from stream %s: %w", w.spec.Stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)() // ends a Next that waits

	for {
		if !w.failing || settling.works() {
			w.failing = false
			w.link(connection)
		}

		msg, err := messages.Next(jetstream.NextMaxWait(streamCheck))

		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrTimeout):
			w.failing = false // there is nothing that could fail
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			if err := w.lookAfter(ctx, connection, consumer); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("error pulling from stream %s: %w", w.spec.Stream, err)
		default:
			if err := w.takeStream(ctx, connection, msg, settling); err != nil {
				return err
			}
		}

		if err := settling.failed(); err != nil {
			w.failing = true

			return err
		}

		if room, err := w.waitForRoom(ctx, w.spec.AckWait.Std()/2); err != nil {
			return err
		} else if !room {
			return errNoRoom
		}
	}
}

// lookAfter is called when the server gives no sign of life. When it is there all the same, the consumer may be gone: with a
// server that was restarted without its streams, or deleted while the connection was away. The client library would ask it
// for messages for ever.
func (w *worker) lookAfter(ctx context.Context, connection *Connection, consumer jetstream.Consumer) error {
	if !connection.NATS.IsConnected() {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	if _, err := consumer.Info(ctx); err != nil {
		return fmt.Errorf("error asking for the consumer of stream %s: %w", w.spec.Stream, err)
	}

	return nil
}

// consumer makes the durable consumer, or brings the one that is there up to date. Where it starts is decided once, when
// it is made.
func (w *worker) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: w.c.durable(w.name), Description: "gateway subscription " + w.name,
		FilterSubject: w.spec.Subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.spec.AckWait.Std(),
		// Attempts are counted here: a message that the server gave up would stay in the stream, seen by nobody.
		MaxDeliver: -1, MaxAckPending: maxAckPending,
	}
	w.startAt(&cfg)

	existing, err := js.Consumer(ctx, w.spec.Stream, cfg.Durable)
	if err == nil && w.replaces {
		if err = js.DeleteConsumer(ctx, w.spec.Stream, cfg.Durable); err == nil {
			err = jetstream.ErrConsumerNotFound
		}
	}

	switch {
	case err == nil:
		old := existing.CachedInfo().Config
		cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = old.DeliverPolicy, old.OptStartTime, old.OptStartSeq
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, fmt.Errorf("error looking up the consumer of stream %s: %w", w.spec.Stream, err)
	}

	consumer, err := js.CreateOrUpdateConsumer(ctx, w.spec.Stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("error making the consumer of stream %s: %w", w.spec.Stream, err)
	}

	w.replaces = false

	return consumer, nil
}

// startAt says where a consumer that is made now starts. When this worker has listened before, or tried to, that is where it
// was: a stream that is made later, or anew, is caught up with.
func (w *worker) startAt(cfg *jetstream.ConsumerConfig) {
	from := func(t time.Time) { cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &t }

	switch policy := w.spec.Deliver.Policy; {
	case !w.since.IsZero() && (policy == "new" || w.taken):
		from(w.since)
	case policy == "all":
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	case policy == "last":
		cfg.DeliverPolicy = jetstream.DeliverLastPolicy
	case policy == "since":
		from(time.Now().Add(-w.spec.Deliver.Since.Std()))
	default:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
}

// takeStream stores a message's event and has it acknowledged behind the barrier, so that the next message need not wait
// for the disk.
func (w *worker) takeStream(ctx context.Context, connection *Connection, msg jetstream.Msg, settling *settling) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("error reading a message of stream %s: %w", w.spec.Stream, err)
	}

	// A stream that is made anew counts from one again: the time tells its messages apart.
	delivery := fmt.Sprintf("%s/%d/%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano())
	finish := msg.DoubleAck

	events, refused := w.events(msg.Subject(), msg.Headers(), msg.Data(), delivery)
	for _, e := range events {
		e.TypedSpec().Event.Sequence = meta.Sequence.Stream
	}

	switch {
	case refused == nil:
		err = w.create(ctx, events)
	case w.comesAgain(meta):
		w.note(func(c *resources.SourceCounts) { c.LastError = refused.Error() })

		return w.later(msg, meta)
	default:
		finish = func(ctx context.Context) error { return terminate(ctx, connection.NATS, msg, refused) }
		err = w.dead(msg.Subject(), delivery, msg.Data(), refused)
	}

	if err != nil {
		// That is ours, not the message's: it comes again, and the worker pauses.
		w.failing = true

		return errors.Join(err, w.later(msg, meta))
	}

	delete(w.patience, meta.Sequence.Stream)

	w.since, w.taken = meta.Timestamp, true

	return settling.settle(ctx, w.c.Barrier, finish)
}

// comesAgain reports whether a message that can't be taken is to be delivered again.
func (w *worker) comesAgain(meta *jetstream.MsgMetadata) bool {
	if meta.NumDelivered >= uint64(w.spec.MaxDeliver) { //nolint:gosec // validated: 1 to 100
		return false
	}

	if _, known := w.patience[meta.Sequence.Stream]; !known && len(w.patience) >= maxPatience {
		return false
	}

	w.patience[meta.Sequence.Stream] = struct{}{}

	return true
}

// later asks for a message again after a delay that grows with its deliveries.
func (w *worker) later(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
	if err := msg.NakWithDelay(w.c.timing.delay(meta.NumDelivered)); err != nil {
		return fmt.Errorf("error asking for a message again: %w", err)
	}

	return nil
}

// maxReason bounds what the server is told, and tells others in its advisory.
const maxReason = 256

// terminate ends a message and waits for the server's answer, which the client library's own Term does not: lost, the message
// would be a dead letter once more.
func terminate(ctx context.Context, connection Link, msg jetstream.Msg, cause error) error {
	_, err := connection.RequestWithContext(ctx, msg.Reply(), []byte("+TERM "+shorten(cause.Error(), maxReason)))

	return err
}
