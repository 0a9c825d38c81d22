package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// recorded is an item of `gateway events -o json`.
type recorded struct {
	Source     string                    `json:"source"`
	Name       string                    `json:"name"`
	Attributes resources.EventAttributes `json:"attributes"`
	Data       resources.JSON            `json:"data"`
	DataBase64 []byte                    `json:"dataBase64"`
}

// record fills what the event leaves out from a file.
func (e *Event) record(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, bare(err))
	}

	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: not an item of `gateway events -o json`: %w", path, err)
	}

	for _, field := range []struct {
		into *string
		from string
	}{{&e.Source, r.Source}, {&e.Name, r.Name}, {&e.Type, r.Attributes.Type}, {&e.Subject, r.Attributes.Subject}} {
		if *field.into == "" {
			*field.into = field.from
		}
	}

	if e.Source == "" {
		return fmt.Errorf("%s: not an item of `gateway events -o json`: it has no source", path)
	}

	if e.Time.IsZero() {
		e.Time = r.Attributes.Time
	}

	if e.Headers == nil {
		e.Headers = r.Attributes.Headers
	}

	if len(e.Data) == 0 {
		e.Data = r.Data
	}

	if len(e.Data) == 0 {
		e.Data = r.DataBase64
	}

	return nil
}

// resource makes the event as the gateway would have it.
func (e *Event) resource(id string) (resource.Resource, error) {
	attributes := resources.EventAttributes{
		ID: id, Source: e.Source, Name: e.Name, Type: e.Type, Subject: e.Subject, Time: e.Time, Received: time.Now().UTC(), Sequence: 1,
		Headers: map[string]string{},
	}

	if attributes.Time.IsZero() {
		attributes.Time = attributes.Received
	}

	for name, value := range e.Headers {
		attributes.Headers[strings.ToLower(name)] = value
	}

	switch e.Source {
	case resources.SourceWebhook:
		event := resources.NewWebhookEvent(id)
		event.TypedSpec().Data = e.Data
		event.TypedSpec().Event = attributes

		return event, nil
	case resources.SourceSubscription:
		event := resources.NewMessageEvent(id)
		event.TypedSpec().Data = e.Data
		event.TypedSpec().Event = attributes

		return event, nil
	case resources.SourceSchedule:
		event := resources.NewCronTick(id)
		event.TypedSpec().Scheduled = attributes.Time

		return event, fill(event.TypedSpec(), &event.TypedSpec().Event, attributes, e.Data)
	case resources.SourceFile:
		event := resources.NewFileEvent(id)
		event.TypedSpec().Path = e.Name

		return event, fill(event.TypedSpec(), &event.TypedSpec().Event, attributes, e.Data)
	case resources.SourceDomain:
		event := resources.NewDomainEvent(id)
		event.TypedSpec().VM = e.Name

		return event, fill(event.TypedSpec(), &event.TypedSpec().Event, attributes, e.Data)
	}

	return nil, fmt.Errorf("%q is not a source", e.Source)
}

// fill decodes the fields of a state-like event into its specification, strictly.
func fill(spec any, event *resources.EventAttributes, attributes resources.EventAttributes, data resources.JSON) error {
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()

		if err := decoder.Decode(spec); err != nil {
			return fmt.Errorf("event.data does not fit an event of this source: %w", err)
		}
	}

	*event = attributes

	return nil
}
