package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"gateway/resources"
)

// Bounds of what the client library holds for one subscription, above which core NATS drops messages, which is counted.
const (
	corePending      = 4096
	corePendingBytes = 64 << 20
	// coreCheck is how often an idle core subscription looks whether the server is there.
	coreCheck = time.Second
	// maxDeliveryID is how long a sender's message id is kept as it is; a longer one is hashed.
	maxDeliveryID = 255
)

// listenCore listens on core NATS: at most once, nothing is delivered again.
func (w *worker) listenCore(ctx context.Context, connection *Connection) error {
	sub, err := w.subscribe(connection.NATS)
	if err != nil {
		return err
	}

	// Ends a NextMsg that waits. Of a connection that is closed there is nothing to be unsubscribed.
	stop := context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	defer func() {
		if stop() {
			_ = sub.Unsubscribe()
		}
	}()

	dropped := 0

	for {
		w.link(connection)

		msg, err := sub.NextMsg(coreCheck)
		dropped = w.countDropped(sub, dropped)

		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrSlowConsumer):
			continue
		case err != nil:
			return fmt.Errorf("error listening on %s: %w", w.spec.Subject, err)
		}

		if err := w.takeCore(ctx, msg); err != nil {
			return err
		}
	}
}

func (w *worker) subscribe(connection Link) (*nats.Subscription, error) {
	var (
		sub *nats.Subscription
		err error
	)

	if w.spec.Queue != "" {
		sub, err = connection.QueueSubscribeSync(w.spec.Subject, w.spec.Queue)
	} else {
		sub, err = connection.SubscribeSync(w.spec.Subject)
	}

	if err != nil {
		return nil, fmt.Errorf("error subscribing to %s: %w", w.spec.Subject, err)
	}

	if err := sub.SetPendingLimits(corePending, corePendingBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("error bounding the subscription to %s: %w", w.spec.Subject, err), sub.Unsubscribe())
	}

	return sub, nil
}

// countDropped counts what the client library dropped because more was pending than it may hold, and returns the sum.
func (w *worker) countDropped(sub *nats.Subscription, before int) int {
	dropped, err := sub.Dropped()
	if err != nil || dropped == before {
		return before
	}

	w.c.Metrics.AddRefused(resources.SourceSubscription, "dropped", dropped-before)
	w.note(func(c *resources.SourceCounts) {
		c.Refused += int64(dropped - before)
		c.LastError = fmt.Sprintf("%d messages came faster than they could be taken in and are lost: a stream would keep them", dropped)
	})

	return dropped
}

// takeCore takes a message in. One that can't be taken is a dead letter at once: it never comes again. While the store can't
// be written it waits, and what comes meanwhile is pending. Nothing is acknowledged, so it need not be durable.
func (w *worker) takeCore(ctx context.Context, msg *nats.Msg) error {
	// Core NATS has no deliveries to tell apart: a message id of the sender's, or each message is its own.
	delivery := header(msg.Header, headerMessageID)

	switch {
	case delivery == "":
		delivery = uuid.NewString()
	case len(delivery) > maxDeliveryID:
		delivery = resources.EventID(delivery)
	}

	events, refused := w.events(msg.Subject, msg.Header, msg.Data, delivery)

	for pause := w.c.timing.breath; ; pause = min(2*pause, w.c.timing.maxRetry) {
		if _, err := w.waitForRoom(ctx, 0); err != nil {
			return err
		}

		var err error

		if refused != nil {
			err = w.dead(msg.Subject, delivery, msg.Data, refused)
		} else {
			err = w.create(ctx, events)
		}

		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}

		w.set(resources.ConditionFalse, resources.ReasonWaiting, err.Error())

		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}
