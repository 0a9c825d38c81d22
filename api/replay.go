package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
	"gateway/sources/payload"
	"gateway/store"
)

// Replayed is what became of a replay.
type Replayed struct {
	// ID is of the event that was processed again, As of the new event; empty for one whose target only looks again.
	ID string `json:"id"`
	As string `json:"as,omitempty"`
	// Target is what looks again because of it.
	Target *resources.Target `json:"target,omitempty"`
}

// ReasonReplay is the reason in the journal of an event that is another one again; its message ends with that one's id.
const ReasonReplay = "Replay"

const replayOf = "replay of "

// ReplayedEvent returns the id of the event that an entry is a replay of.
func ReplayedEvent(e *store.Entry) (id string, ok bool) {
	if e.Class != store.ClassEvent || e.Reason != ReasonReplay {
		return "", false
	}

	return strings.CutPrefix(e.Message, replayOf)
}

// recordedEvent is an event as the journal has it.
type recordedEvent struct {
	entry      store.Entry
	attributes resources.EventAttributes
}

// Replay processes an event again. A webhook's or a message's comes in once more, as a new event that the old one is the cause
// of, with what its declaration says now; of the others, which are states rather than messages, the target looks again.
func (o *Operations) Replay(ctx context.Context, c Caller, id string) (Replayed, error) {
	event, err := o.recorded(ctx, id)
	if err != nil {
		return Replayed{}, err
	}

	var done Replayed

	switch event.attributes.Source {
	case resources.SourceWebhook, resources.SourceSubscription:
		done, err = o.replayMessage(ctx, c, event)
	default:
		done, err = o.replayState(ctx, event)
	}

	if err != nil {
		return Replayed{}, err
	}

	return done, o.Finish(ctx, c, "replay", eventObject(id))
}

// eventObject names an event as the object of a command.
func eventObject(id string) string { return "Event/" + id }

// recorded finds an event in the journal, best with its data.
func (o *Operations) recorded(ctx context.Context, id string) (*recordedEvent, error) {
	entries, err := o.Store.Journal().Query(ctx, store.Query{
		Classes: []store.Class{store.ClassEvent, store.ClassDead, store.ClassRefused}, EventID: id,
	})
	if err != nil {
		return nil, fmt.Errorf("error reading the journal: %w", err)
	}

	var found *recordedEvent

	for i := len(entries) - 1; i >= 0; i-- {
		// What a trigger could not do has the event's id too, and other data.
		event := &recordedEvent{entry: entries[i]}
		if len(entries[i].Attributes) == 0 || json.Unmarshal(entries[i].Attributes, &event.attributes) != nil {
			continue
		}

		if found == nil || event.complete() && !found.complete() {
			found = event
		}
	}

	if found == nil {
		return nil, fmt.Errorf("event %q in the journal, which keeps 24 h: %w", id, errNotFound)
	}

	return found, nil
}

// complete reports whether the data is there as it came.
func (e *recordedEvent) complete() bool {
	return int64(len(e.entry.Data)) == e.attributes.Bytes && (e.attributes.Digest == "" || resources.Digest(e.entry.Data) == e.attributes.Digest)
}

// declaration is what the webhook or subscription of an event says now.
type declaration struct {
	target  *resources.Target
	apply   *resources.ApplyRule
	publish string
	// content and maxBytes are what a subscription asks of a message.
	content  string
	maxBytes int64
}

// check returns why a message that was dead on arrival still can't be taken.
func (d *declaration) check(data []byte) error {
	switch {
	case d.maxBytes > 0 && int64(len(data)) > d.maxBytes:
		return usage("it has %d bytes, at most %d are taken", len(data), d.maxBytes)
	case d.content == "json":
		if err := payload.CheckJSON(data); err != nil {
			return usage("it is not acceptable JSON: %s", err)
		}
	case d.content == "cloudevents":
		return usage("it is not a CloudEvent")
	}

	return nil
}

// declarationOf returns it; ok is false where there is none any more.
func (o *Operations) declarationOf(ctx context.Context, source, name string) (d declaration, ok bool, err error) {
	kindName := map[string]string{
		resources.SourceWebhook: "Webhook", resources.SourceSubscription: "Subscription", resources.SourceSchedule: "Schedule",
	}[source]

	kind, known := resources.KindByName(kindName)
	if !known {
		return d, false, nil
	}

	r, err := o.state.Get(ctx, kind.Pointer(name))
	if state.IsNotFoundError(err) {
		return d, false, nil
	}

	if err != nil {
		return d, false, fmt.Errorf("error reading %s %q: %w", kindName, name, err)
	}

	switch spec := r.Spec().(type) {
	case *resources.WebhookSpec:
		d = declaration{target: spec.Target, apply: spec.Apply, publish: spec.Publish}
	case *resources.SubscriptionSpec:
		d = declaration{target: spec.Target, apply: spec.Apply, publish: spec.Publish, content: spec.Content, maxBytes: int64(spec.MaxBytes)}
	case *resources.ScheduleSpec:
		d = declaration{target: spec.Target}
	}

	return d, r.Metadata().Phase() == resource.PhaseRunning, nil
}

func (o *Operations) replayMessage(ctx context.Context, c Caller, old *recordedEvent) (Replayed, error) {
	a := old.attributes

	d, ok, err := o.declarationOf(ctx, a.Source, a.Name)

	switch {
	case err != nil:
		return Replayed{}, err
	case !ok:
		return Replayed{}, usage("the %s %q of event %s is not declared any more", a.Source, a.Name, a.ID)
	case a.Headers["x-github-event"] == "ping":
		return Replayed{}, usage("event %s is GitHub's test of the webhook and leads to nothing", a.ID)
	case !old.complete() && len(old.entry.Data) == 0 && d.apply != nil:
		return Replayed{}, usage("the data of event %s is not kept, because %s %q applies it and it may hold secrets: its sender has to send it again",
			a.ID, a.Source, a.Name)
	case !old.complete():
		return Replayed{}, usage("of the %d bytes of event %s only %d are kept: its sender has to send it again", a.Bytes, a.ID, len(old.entry.Data))
	}

	if old.entry.Class == store.ClassDead && a.Source == resources.SourceSubscription && d.apply == nil {
		if err := d.check(old.entry.Data); err != nil {
			return Replayed{}, usage("message %s can't be taken: %s", a.ID, err)
		}
	}

	if err := o.Pacer.Wait(ctx); err != nil {
		return Replayed{}, fmt.Errorf("the gateway is busy: %w", err)
	}

	event, owner := renewed(c, old, d)
	attributes := resources.AttributesOf(event)

	entry, err := replayEntry(attributes, old, d, c)
	if err != nil {
		return Replayed{}, err
	}

	joined, finish := o.Store.Journal().Join(ctx, entry)

	if err := o.state.Create(joined, event, state.WithCreateOwner(owner)); err != nil {
		return Replayed{}, fmt.Errorf("error creating the replay of event %s: %w", a.ID, err)
	}

	if err := finish(); err != nil {
		return Replayed{}, fmt.Errorf("error recording event %s: %w", attributes.ID, err)
	}

	return Replayed{ID: a.ID, As: attributes.ID, Target: attributes.Target}, nil
}

// renewed makes the event that comes in again, as its source would, and returns the source's name.
func renewed(c Caller, old *recordedEvent, d declaration) (event resource.Resource, owner string) {
	a := old.attributes.Clone()
	a.ID = resources.EventID("replay", a.ID, c.ID)
	a.DeliveryID, a.Received = "", time.Now().UTC() // the sender's own id is of the sender's own delivery
	a.Target, a.Publish = d.target.Clone(), d.publish

	if a.Source == resources.SourceWebhook {
		webhook := resources.NewWebhookEvent(a.ID)
		webhook.TypedSpec().Event, webhook.TypedSpec().Data, webhook.TypedSpec().Apply = a, old.entry.Data, d.apply.Clone()
		event, owner = webhook, resources.SourceWebhooks
	} else {
		message := resources.NewMessageEvent(a.ID)
		message.TypedSpec().Event, message.TypedSpec().Data, message.TypedSpec().Apply = a, old.entry.Data, d.apply.Clone()
		message.TypedSpec().NATSSubject = a.Subject
		event, owner = message, resources.SourceSubscriptions
	}

	if d.apply != nil {
		event.Metadata().Finalizers().Add(resources.FinalizerDocuments)
	}

	event.Metadata().Finalizers().Add(resources.FinalizerTrigger)
	resources.SetCause(event.Metadata(), old.attributes.ID)

	return event, owner
}

// replayEntry is what the journal keeps of a replay.
func replayEntry(a *resources.EventAttributes, old *recordedEvent, d declaration, c Caller) (store.Entry, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("error encoding the attributes of event %s: %w", a.ID, err)
	}

	entry := store.Entry{
		Time: a.Received, Class: store.ClassEvent, Source: a.Source, Name: a.Name, EventID: a.ID, Object: a.Target.String(),
		Peer: c.Peer, Reason: ReasonReplay, Message: replayOf + old.attributes.ID, Attributes: encoded,
	}

	if d.apply == nil {
		entry.Data = old.entry.Data
	}

	return entry, nil
}

// replayState asks the target of a schedule's, a domain's or a file's event to look again.
func (o *Operations) replayState(ctx context.Context, old *recordedEvent) (Replayed, error) {
	a := old.attributes

	target := a.Target
	if d, ok, err := o.declarationOf(ctx, a.Source, a.Name); err != nil {
		return Replayed{}, err
	} else if ok {
		target = d.target
	}

	switch {
	case target == nil && a.Source == resources.SourceFile:
		return Replayed{}, usage("event %s says that a file changed: the file itself is what counts; `gateway sync` makes its objects look again", a.ID)
	case target == nil:
		return Replayed{}, usage("event %s of %s %q has no target that could look again", a.ID, a.Source, a.Name)
	}

	if err := o.resync(ctx, *target.Clone(), a.ID); err != nil {
		return Replayed{}, err
	}

	return Replayed{ID: a.ID, Target: target}, nil
}

func (o *operations) replay(w http.ResponseWriter, r *http.Request) error {
	done, err := o.Replay(r.Context(), callerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, done)

	return nil
}
