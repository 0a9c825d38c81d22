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
	// linkCheck is how often a core subscription looks whether the server is there.
	linkCheck = time.Second
)

// listenCore listens on core NATS: at most once, nothing is delivered again.
func (w *worker) listenCore(ctx context.Context, connection *Connection) error {
	messages := make(chan *nats.Msg, corePending)

	var (
		sub *nats.Subscription
		err error
	)

	if w.spec.Queue != "" {
		sub, err = connection.NATS.ChanQueueSubscribe(w.spec.Subject, w.spec.Queue, messages)
	} else {
		sub, err = connection.NATS.ChanSubscribe(w.spec.Subject, messages)
	}

	if err != nil {
		return fmt.Errorf("error subscribing to %s: %w", w.spec.Subject, err)
	}

	defer sub.Unsubscribe() //nolint:errcheck // of a connection that may be closed

	if err := sub.SetPendingLimits(corePending, corePendingBytes); err != nil && !errors.Is(err, nats.ErrTypeSubscription) {
		return fmt.Errorf("error bounding the subscription to %s: %w", w.spec.Subject, err)
	}

	ticker := time.NewTicker(linkCheck)
	defer ticker.Stop()

	for {
		w.link(connection)

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case msg := <-messages:
			if err := w.takeCore(ctx, msg); err != nil {
				return err
			}
		}
	}
}

// link shows whether the server is there: the client library subscribes again by itself.
func (w *worker) link(connection *Connection) {
	if connection.NATS.IsConnected() {
		w.set(resources.ConditionTrue, resources.ReasonReady, "")
	} else {
		w.set(resources.ConditionFalse, resources.ReasonDisconnected, "NATS is not connected")
	}
}

// takeCore takes a message in. One that can't be taken is a dead letter at once: it never comes again.
func (w *worker) takeCore(ctx context.Context, msg *nats.Msg) error {
	if err := w.waitForRoom(ctx); err != nil {
		return err
	}

	// Core NATS has no deliveries to tell apart: a message id of the sender's, or each message is its own.
	delivery := header(msg.Header, headerMessageID)
	if delivery == "" {
		delivery = uuid.NewString()
	}

	events, err := w.events(msg.Subject, msg.Header, msg.Data, delivery)
	if err != nil {
		return w.dead(msg.Subject, delivery, msg.Data, err)
	}

	return w.store(ctx, events)
}
