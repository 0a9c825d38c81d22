package subscriptions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// create writes events to the state and the journal; those that were taken in before are left out.
func (w *worker) create(ctx context.Context, events []*resources.MessageEvent) error {
	for _, event := range events {
		a := &event.TypedSpec().Event

		if _, seen := w.c.Journal.Seen(a.Source, a.Name, a.DeliveryID); seen {
			w.note(func(c *resources.SourceCounts) { c.Duplicates++ })

			continue
		}

		if err := intake.Untriggered(ctx, w.c.State, event, a.Source, a.Name); err != nil {
			return err
		}

		if a.Sequence == 0 { // of no stream
			var err error
			if a.Sequence, err = w.c.order.Next(ctx); err != nil {
				return err
			}
		}

		if !event.Metadata().Finalizers().Empty() {
			w.c.pending.Add(a.ID, a.Bytes) // before the watch tells, so that a burst can't pass the bound
		}

		entry, err := entryOf(event)
		if err != nil {
			return err
		}

		joined, finish := w.c.Journal.Join(ctx, entry)

		err = w.c.State.Create(joined, event, state.WithCreateOwner(resources.SourceSubscriptions))

		switch {
		case state.IsConflictError(err): // the journal does not know it any more
			finish = func() error { return w.c.Journal.Append(entry) }
		case err != nil:
			w.c.pending.Remove(a.ID)

			return fmt.Errorf("error creating event %s: %w", a.ID, err)
		}

		if err := finish(); err != nil {
			return fmt.Errorf("error recording event %s: %w", a.ID, err)
		}

		w.c.Metrics.Received(resources.SourceSubscription)
		w.note(func(c *resources.SourceCounts) {
			c.Received++
			c.LastEvent, c.LastReceived = a.ID, a.Received
		})
	}

	return nil
}

// entryOf is what the journal keeps of an event.
func entryOf(event *resources.MessageEvent) (store.Entry, error) {
	a := &event.TypedSpec().Event

	attributes, err := json.Marshal(a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("error encoding the attributes of event %s: %w", a.ID, err)
	}

	entry := store.Entry{
		Time: a.Received, Class: store.ClassEvent, Source: a.Source, Name: a.Name, EventID: a.ID, Key: a.DeliveryID,
		Object: a.Target.String(), Message: event.TypedSpec().NATSSubject, Attributes: attributes,
	}

	// What an apply rule takes in can hold secrets: the journal keeps its digest only.
	if event.TypedSpec().Apply == nil {
		entry.Data = event.TypedSpec().Data
	}

	return entry, nil
}

// dead keeps a message that can't be taken in the journal, from where the events sink publishes it as a dead letter: a copy,
// unless it was to be applied.
func (w *worker) dead(subject, delivery string, data []byte, cause error) error {
	now, publish := time.Now().UTC(), "full"
	if w.spec.Apply != nil {
		publish = "attributes"
	}

	attributes, err := json.Marshal(resources.EventAttributes{
		Source: resources.SourceSubscription, Name: w.name, Type: messageType, Subject: clean(subject), Time: now, Received: now,
		Digest: resources.Digest(data), Bytes: int64(len(data)), DeliveryID: delivery, Publish: publish,
	})
	if err != nil {
		return fmt.Errorf("error encoding a dead letter: %w", err)
	}

	entry := store.Entry{
		Class: store.ClassDead, Source: resources.SourceSubscription, Name: w.name, EventID: resources.EventID(resources.SourceSubscription, w.name, delivery),
		Reason: resources.ReasonInvalid, Message: cause.Error(), Attributes: attributes,
	}

	if w.spec.Apply == nil {
		entry.Data = data
	}

	if err := w.c.Journal.Append(entry); err != nil {
		return fmt.Errorf("error recording a dead letter: %w", err)
	}

	w.c.Metrics.Refused(resources.SourceSubscription, "dead")
	w.note(func(c *resources.SourceCounts) {
		c.Refused++
		c.LastError = cause.Error()
	})

	return nil
}
