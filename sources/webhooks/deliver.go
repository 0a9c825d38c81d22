package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/google/uuid"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/sources/payload"
	"gateway/store"
)

// newDelivery makes the events of an authenticated request: one, or as many as a CloudEvents batch has.
func newDelivery(route *route, r *http.Request, peer netip.Addr, raw []byte) ([]*resources.WebhookEvent, error) {
	spec := &route.spec

	body, err := decompress(r, raw, spec.Gzip, int64(spec.Limits.Body))
	if err != nil {
		return nil, err
	}

	now := time.Now().UTC()
	base := resources.EventAttributes{
		Source: resources.SourceWebhook, Name: route.name, Time: now, Received: now, Peer: peer.String(), Publish: spec.Publish,
		Headers: keptHeaders(r.Header, route.verifier.headers()),
	}

	if !isPing(r.Header) {
		base.Target = spec.Target
	}

	if spec.Content == "cloudevents" {
		decoded, err := payload.DecodeCloudEvents(mediaType(r.Header), r.Header.Get("Content-Type"), r.Header, body)
		if err != nil {
			return nil, refusalOf(err)
		}

		events := make([]*resources.WebhookEvent, 0, len(decoded))

		for _, e := range decoded {
			a := base.Clone()
			e.Into(&a)
			events = append(events, newEvent(route, r, a, e.Data))
		}

		return events, nil
	}

	data, dataType, err := decodeContent(spec.Content, r.Header, body)
	if err != nil {
		return nil, err
	}

	describe(spec, r.Header, data, &base)
	base.DataContentType = dataType

	return []*resources.WebhookEvent{newEvent(route, r, base, data)}, nil
}

// refusalOf gives a payload's fault its status.
func refusalOf(err error) error {
	fault, ok := errors.AsType[*payload.Error](err)
	if !ok {
		return err
	}

	status := map[string]int{
		"content-type": http.StatusUnsupportedMediaType, "too-large": http.StatusRequestEntityTooLarge,
	}[fault.Reason]
	if status == 0 {
		status = http.StatusBadRequest
	}

	return refuse(status, fault.Reason, "%s", fault.Message)
}

// newEvent makes the resource. Its id is made of the delivery's id, so that the same delivery is the same event; a
// delivery without one gets a random id.
func newEvent(route *route, r *http.Request, a resources.EventAttributes, data []byte) *resources.WebhookEvent {
	if a.DeliveryID == "" {
		a.ID = resources.EventID(resources.SourceWebhook, route.name, uuid.NewString())
	} else {
		a.ID = resources.EventID(resources.SourceWebhook, route.name, a.DeliveryID)
	}

	a.Digest, a.Bytes = resources.Digest(data), int64(len(data))

	event := resources.NewWebhookEvent(a.ID)
	spec := event.TypedSpec()
	spec.Event, spec.Data = a, data

	if isPing(r.Header) {
		return event
	}

	if route.spec.Apply != nil {
		spec.Apply = route.spec.Apply.Clone()
		event.Metadata().Finalizers().Add(resources.FinalizerDocuments)
	}

	event.Metadata().Finalizers().Add(resources.FinalizerTrigger)

	return event
}

// store creates the event and notes it in the journal. It reports whether the same delivery was taken in before.
func (s *Server) store(ctx context.Context, event *resources.WebhookEvent) (duplicate bool, err error) {
	a := &event.TypedSpec().Event

	if a.DeliveryID != "" {
		// Two deliveries with one id at once: the second sees what the first wrote.
		defer s.locks.lock(a.ID)()

		if id, seen := s.Journal.Seen(a.Source, a.Name, a.DeliveryID); seen {
			a.ID = id

			return true, nil
		}
	}

	if err := intake.Untriggered(ctx, s.State, event, a.Source, a.Name); err != nil {
		return false, err
	}

	if a.Sequence, err = s.order.Next(ctx); err != nil {
		return false, err
	}

	entry, err := entryOf(event)
	if err != nil {
		return false, err
	}

	joined, finish := s.Journal.Join(ctx, entry)

	if err := s.State.Create(joined, event, state.WithCreateOwner(resources.SourceWebhooks)); err != nil {
		if !state.IsConflictError(err) {
			return false, fmt.Errorf("error creating event %s: %w", a.ID, err)
		}

		if err := s.lost(ctx, event); err != nil {
			return false, err
		}

		if entry, err = entryOf(event); err != nil {
			return false, err
		}

		duplicate, finish = true, func() error { return s.Journal.Append(entry) }
	}

	if err := finish(); err != nil {
		return false, fmt.Errorf("error recording event %s: %w", a.ID, err)
	}

	return duplicate, nil
}

// entryOf is what the journal keeps of an event.
func entryOf(event *resources.WebhookEvent) (store.Entry, error) {
	a := &event.TypedSpec().Event

	attributes, err := json.Marshal(a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("error encoding the attributes of event %s: %w", a.ID, err)
	}

	entry := store.Entry{
		Time: a.Received, Class: store.ClassEvent, Source: a.Source, Name: a.Name, EventID: a.ID, Key: a.DeliveryID,
		Object: a.Target.String(), Peer: a.Peer, Attributes: attributes,
	}

	// What an apply rule takes in can hold secrets: the journal keeps its digest only.
	if event.TypedSpec().Apply == nil {
		entry.Data = event.TypedSpec().Data
	}

	return entry, nil
}

// lost makes a delivery the one whose event is there although the journal does not know it any more. The entry is made up for by the
// caller. Where the event is there because it is dead and
// not yet cleared away, the error asks the sender to come again: then it is processed anew.
func (s *Server) lost(ctx context.Context, event *resources.WebhookEvent) error {
	a := &event.TypedSpec().Event

	entries, err := s.Journal.Query(ctx, store.Query{Classes: []store.Class{store.ClassDead}, EventID: a.ID, Limit: 1})
	if err != nil {
		return fmt.Errorf("error looking for event %s in the journal: %w", a.ID, err)
	}

	if len(entries) > 0 {
		return later(http.StatusServiceUnavailable, "dead", "the same delivery has just failed")
	}

	first, err := s.State.Get(ctx, event.Metadata())
	if err != nil {
		return fmt.Errorf("error reading event %s: %w", a.ID, err)
	}

	if spec, ok := first.Spec().(*resources.WebhookEventSpec); ok {
		*a = spec.Event
	}

	return nil
}
