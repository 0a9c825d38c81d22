package subscriptions

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"

	"gateway/broker"
	"gateway/resources"
	"gateway/sources/payload"
	"gateway/store"
)

const (
	headerMessageID = "Nats-Msg-Id"
	// maxHeaders and maxHeaderBytes bound the headers that are kept with an event.
	maxHeaders     = 64
	maxHeaderBytes = 8 << 10
)

// header returns a header's value, whatever its case: NATS headers are case-sensitive, senders are not.
func header(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}

	for k, v := range h {
		if len(v) > 0 && strings.EqualFold(k, name) {
			return v[0]
		}
	}

	return ""
}

// events makes the events of a message: one, or as many as a CloudEvents batch has. An error is why the message can never
// be taken.
func (w *worker) events(subject string, h nats.Header, data []byte, delivery string) ([]*resources.MessageEvent, error) {
	if int64(len(data)) > int64(w.spec.MaxBytes) {
		return nil, fmt.Errorf("the message has %d bytes, at most %s are taken", len(data), w.spec.MaxBytes)
	}

	now := time.Now().UTC()
	base := resources.EventAttributes{
		Source: resources.SourceSubscription, Name: w.name, Type: "gateway.message.v1", Subject: subject, Time: now, Received: now,
		DataContentType: header(h, "Content-Type"), DeliveryID: delivery, Target: w.spec.Target, Publish: w.spec.Publish, Headers: kept(h),
	}

	if text := header(h, broker.HeaderHops); text != "" {
		hops, err := strconv.Atoi(text)
		if err != nil || hops >= broker.MaxHops {
			return nil, fmt.Errorf("the message went through gateways %.10q times, at most %d are allowed: a loop", text, broker.MaxHops-1)
		}

		base.Hops = hops
	}

	mediaType, _, err := mime.ParseMediaType(base.DataContentType)
	if err != nil {
		mediaType = ""
	}

	switch {
	case w.spec.Content == "cloudevents" || w.spec.Content == "any" && isCloudEvent(mediaType, h):
		return w.cloudEvents(mediaType, h, data, base)
	case w.spec.Content == "json" || payload.IsJSON(mediaType):
		if err := payload.CheckJSON(data); err != nil {
			return nil, fmt.Errorf("the message is not acceptable JSON: %w", err)
		}
	}

	return []*resources.MessageEvent{w.event(subject, base, data)}, nil
}

func isCloudEvent(mediaType string, h nats.Header) bool {
	return strings.HasPrefix(mediaType, "application/cloudevents") || header(h, "ce-specversion") != ""
}

func (w *worker) cloudEvents(mediaType string, h nats.Header, data []byte, base resources.EventAttributes) ([]*resources.MessageEvent, error) {
	if mediaType == "" && header(h, "ce-specversion") == "" {
		mediaType = "application/cloudevents+json" // a route that takes nothing else, from a sender without headers
	}

	decoded, err := payload.DecodeCloudEvents(mediaType, base.DataContentType, h, data)
	if err != nil {
		return nil, err
	}

	events := make([]*resources.MessageEvent, 0, len(decoded))

	for i, e := range decoded {
		a := base.Clone()
		e.Into(&a)
		// The stream's delivery is what is taken once, not the sender's id, which may come on other subjects too.
		a.DeliveryID = base.DeliveryID + "/" + strconv.Itoa(i)
		events = append(events, w.event(base.Subject, a, e.Data))
	}

	return events, nil
}

func (w *worker) event(subject string, a resources.EventAttributes, data []byte) *resources.MessageEvent {
	a.ID = resources.EventID(a.Source, a.Name, a.DeliveryID)
	a.Digest, a.Bytes = resources.Digest(data), int64(len(data))

	event := resources.NewMessageEvent(a.ID)
	spec := event.TypedSpec()
	spec.Event, spec.Data, spec.NATSSubject = a, slices.Clone(data), subject

	if w.spec.Apply != nil {
		spec.Apply = w.spec.Apply.Clone()
		event.Metadata().Finalizers().Add(resources.FinalizerDocuments)
	}

	event.Metadata().Finalizers().Add(resources.FinalizerTrigger)

	return event
}

// kept returns the headers in lower case, without credentials, bounded.
func kept(h nats.Header) map[string]string {
	headers, size := map[string]string{}, 0

	for _, name := range resources.SortedKeys(h) {
		lower, value := strings.ToLower(name), strings.Join(h[name], ", ")
		size += len(lower) + len(value)

		if lower == "authorization" || lower == "cookie" || len(headers) == maxHeaders || size > maxHeaderBytes {
			continue
		}

		headers[lower] = value
	}

	return headers
}

// store takes events in and waits until they are durable.
func (w *worker) store(ctx context.Context, events []*resources.MessageEvent) error {
	if err := w.create(ctx, events); err != nil {
		return err
	}

	if err := w.c.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	return nil
}

// create writes events to the state and the journal; those that were taken in before are left out.
func (w *worker) create(ctx context.Context, events []*resources.MessageEvent) error {
	for _, event := range events {
		a := &event.TypedSpec().Event

		if _, seen := w.c.Journal.Seen(a.Source, a.Name, a.DeliveryID); seen {
			w.note(func(c *resources.SourceCounts) { c.Duplicates++ })

			continue
		}

		err := w.c.State.Create(ctx, event, state.WithCreateOwner(resources.SourceSubscriptions))
		if err != nil && !state.IsConflictError(err) {
			return fmt.Errorf("error creating event %s: %w", a.ID, err)
		}

		if err := w.record(event); err != nil {
			return err
		}

		w.c.Metrics.Received(resources.SourceSubscription)
		w.note(func(c *resources.SourceCounts) {
			c.Received++
			c.LastEvent, c.LastReceived = a.ID, a.Received
		})
	}

	return nil
}

func (w *worker) record(event *resources.MessageEvent) error {
	a := &event.TypedSpec().Event

	attributes, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("error encoding the attributes of event %s: %w", a.ID, err)
	}

	entry := store.Entry{
		Time: a.Received, Class: store.ClassEvent, Source: a.Source, Name: a.Name, EventID: a.ID, Key: a.DeliveryID,
		Object: a.Target.String(), Message: event.TypedSpec().NATSSubject, Attributes: attributes,
	}

	// What an apply rule takes in can hold secrets: the journal keeps its digest only.
	if event.TypedSpec().Apply == nil {
		entry.Data = event.TypedSpec().Data
	}

	if err := w.c.Journal.Append(entry); err != nil {
		return fmt.Errorf("error recording event %s: %w", a.ID, err)
	}

	return nil
}

// dead keeps a message that can't be taken in the journal, from where the events sink publishes it as a dead letter.
func (w *worker) dead(subject, delivery string, data []byte, cause error) error {
	w.c.Metrics.Refused(resources.SourceSubscription, "dead")
	w.note(func(c *resources.SourceCounts) {
		c.Refused++
		c.LastError = cause.Error()
	})

	now := time.Now().UTC()
	attributes, err := json.Marshal(resources.EventAttributes{
		Source: resources.SourceSubscription, Name: w.name, Type: "gateway.message.v1", Subject: subject, Time: now, Received: now,
		Digest: resources.Digest(data), Bytes: int64(len(data)), DeliveryID: delivery, Publish: w.spec.Publish,
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

	return nil
}
