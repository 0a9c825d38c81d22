package trigger

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
	"gateway/resources/expression"
)

// staleAfter is when a state-like event is a thing of the past. It stays until the next one of its subject, and the
// journal, which knows that it was looked at, keeps 24 h.
const staleAfter = 23 * time.Hour

// observation is one event as triggers see it.
type observation struct {
	attributes *resources.EventAttributes
	event      resource.Resource
	// input is what expressions see, made by load: most events concern no trigger, and decoding is what costs.
	input  expression.Input
	loaded bool
	// gathered reports that the objects are read; refusal is why they can't be looked at all the same.
	gathered bool
	refusal  string
	// waited is for how long the controller has waited for them.
	waited time.Duration
	// message reports that the event is message-like.
	message bool
	// key identifies this version of the event; a replay has another one.
	key string
	// names are all names that `on.name` may give it.
	names []string
}

// observe reads an event; attributes is nil where r is none.
func observe(r resource.Resource) *observation {
	o := &observation{attributes: resources.AttributesOf(r), event: r}
	if o.attributes == nil {
		return o
	}

	a := o.attributes
	o.names = []string{a.Name}
	epoch := ""

	switch event := r.(type) {
	case *resources.WebhookEvent, *resources.MessageEvent:
		o.message = true
	case *resources.DomainEvent:
		o.names, epoch = append(o.names, event.TypedSpec().VM), event.TypedSpec().Epoch
	case *resources.FileEvent:
		o.names = append(o.names, event.TypedSpec().Path, filepath.Base(event.TypedSpec().Path))
	}

	received := ""
	if o.message {
		received = strconv.FormatInt(a.Received.UnixNano(), 10)
	}

	o.key = resources.EventID(r.Metadata().Type(), a.ID, strconv.FormatUint(a.Sequence, 10), epoch, received)

	return o
}

// load makes what expressions see of the event, once.
func (o *observation) load() {
	if o.loaded {
		return
	}

	a := o.attributes
	o.loaded = true
	o.input.Event = expression.Event{
		ID: a.ID, Source: a.Source, Name: a.Name, Type: a.Type, Subject: a.Subject, Time: a.Time, Headers: a.Headers,
	}

	switch event := o.event.(type) {
	case *resources.WebhookEvent:
		o.input.Event.Data = expression.Data(event.TypedSpec().Data)
	case *resources.MessageEvent:
		o.input.Event.Data = expression.Data(event.TypedSpec().Data)
	default:
		o.input.Event.Data = members(o.event.Spec())
	}
}

// members are the fields of a state-like event beside its attributes, under their names in JSON.
func members(spec any) any {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil // a resource that was stored can be marshalled
	}

	data, ok := expression.Data(encoded).(map[string]any)
	if !ok {
		return nil
	}

	delete(data, "event")

	return data
}

// stale reports whether a state-like event is too old to tell whether it was looked at.
func (o *observation) stale() bool {
	return time.Since(o.attributes.Received) > staleAfter
}

// concerns reports whether the trigger is to look at this event. It is not where the trigger came after the event: events
// of the past lead to nothing.
func (o *observation) concerns(trigger *resources.Trigger) bool {
	on := trigger.TypedSpec().On
	if on.Source != o.attributes.Source || o.attributes.Received.Before(trigger.Metadata().Created()) && !o.message {
		return false
	}

	if on.Name == "" {
		return true
	}

	for _, name := range o.names {
		if name == on.Name {
			return true
		}
	}

	return false
}
