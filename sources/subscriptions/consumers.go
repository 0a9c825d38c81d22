package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
)

// removeTimeout bounds the removal of a consumer that nobody listens with.
const removeTimeout = 5 * time.Second

// durable is the consumer's name: two gateways may listen to one stream.
func (c *Controller) durable(subscription string) string { return c.Names.Prefix + "-" + subscription }

// noteStream notes that a subscription is about to have a consumer on a stream.
func (c *Controller) noteStream(ctx context.Context, r controller.Runtime, name, stream string) error {
	if stream == "" {
		return nil
	}

	err := r.Modify(ctx, resources.NewSubscriptionStatus(name), func(res resource.Resource) error {
		spec := res.Spec().(*resources.SubscriptionStatusSpec) //nolint:forcetypeassert // one type a kind
		if !slices.Contains(spec.Streams, stream) {
			spec.Streams = append(spec.Streams, stream)
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("error noting the stream of subscription %s: %w", name, err)
	}

	return nil
}

// tidy removes the consumers with which nobody listens any more, and then the statuses of documents that are gone. What can't
// be removed now, because NATS is away, is at one of the next reports: a consumer that is left would hold back the messages
// of its stream for ever.
func (c *Controller) tidy(ctx context.Context, r controller.Runtime) error {
	kind := resources.KindOf(resources.NewSubscriptionStatus("").Metadata())

	list, err := r.List(ctx, kind.List())
	if err != nil {
		return fmt.Errorf("error listing statuses of subscriptions: %w", err)
	}

	for _, item := range list.Items {
		status, ok := item.(*resources.SubscriptionStatus)
		if !ok {
			continue
		}

		name, listening := status.Metadata().ID(), ""

		w := c.workers[name]
		if w != nil {
			listening = w.spec.Stream
		}

		left, err := c.tidyStreams(ctx, r, status, listening)
		if err != nil {
			return err
		}

		if w != nil || left > 0 {
			continue
		}

		if _, err := intake.Drop(ctx, r, status.Metadata()); err != nil {
			return err
		}
	}

	return nil
}

// tidyStreams removes a subscription's consumers from all streams but the one that it listens to. It returns on how many
// streams there may still be one.
func (c *Controller) tidyStreams(ctx context.Context, r controller.Runtime, status *resources.SubscriptionStatus, listening string) (int, error) {
	name, streams := status.Metadata().ID(), status.TypedSpec().Streams

	for _, stream := range streams {
		if stream == listening || !c.removeConsumer(ctx, name, stream) {
			continue
		}

		err := r.Modify(ctx, resources.NewSubscriptionStatus(name), func(res resource.Resource) error {
			spec := res.Spec().(*resources.SubscriptionStatusSpec) //nolint:forcetypeassert // one type a kind
			spec.Streams = slices.DeleteFunc(spec.Streams, func(s string) bool { return s == stream })
			streams = spec.Streams

			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("error noting that the consumer of subscription %s is gone: %w", name, err)
		}
	}

	return len(streams), nil
}

// removeConsumer removes a consumer and reports whether it is gone.
func (c *Controller) removeConsumer(ctx context.Context, name, stream string) bool {
	connection := c.Connection()
	if connection == nil || !connection.NATS.IsConnected() {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()

	err := connection.JetStream.DeleteConsumer(ctx, stream, c.durable(name))
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return true
	}

	c.Logger.Debug("a consumer can't be removed yet", zap.String("subscription", name), zap.String("stream", stream), zap.Error(err))

	return false
}
