package payload

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"gateway/resources"
)

// maxBatch is how many events one CloudEvents batch may have: each becomes a resource.
const maxBatch = 1000

// CloudEvent is an incoming event: CloudEvents 1.0.
type CloudEvent struct {
	// Attributes by name in lower case, the required ones and extensions.
	Attributes map[string]string
	Data       []byte
	// DataType is the content type of Data.
	DataType string
}

// Error is a payload that can't be taken: a word for metrics, and what the sender is told.
type Error struct {
	// Reason is content-type, too-large, invalid-json or invalid-cloudevent.
	Reason  string
	Message string
}

func (e *Error) Error() string { return e.Message }

func fault(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// DecodeCloudEvents reads binary, structured and batched events (CloudEvents 1.0 with its HTTP and NATS bindings, which
// differ in the case of header names only). mediaType is the content type in lower case without parameters, contentType
// the whole of it; headers are all headers, in any case.
func DecodeCloudEvents(mediaType, contentType string, headers map[string][]string, body []byte) ([]CloudEvent, error) {
	switch {
	case mediaType == "application/cloudevents-batch+json":
		return decodeBatch(body)
	case strings.HasPrefix(mediaType, "application/cloudevents"):
		if !strings.HasSuffix(mediaType, "+json") {
			return nil, fault("content-type", "of the structured formats only JSON is taken")
		}

		if err := CheckJSON(body); err != nil {
			return nil, fault("invalid-json", "the event is not acceptable JSON: %s", err)
		}

		event, err := decodeStructured(body)
		if err != nil {
			return nil, err
		}

		return []CloudEvent{event}, nil
	}

	return decodeBinary(mediaType, contentType, headers, body)
}

func decodeBinary(mediaType, contentType string, headers map[string][]string, body []byte) ([]CloudEvent, error) {
	event := CloudEvent{Attributes: map[string]string{}, Data: body, DataType: contentType}

	for name, values := range headers {
		attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok {
			continue
		}

		if _, twice := event.Attributes[attribute]; twice || len(values) != 1 {
			return nil, fault("invalid-cloudevent", "the header ce-%.40s is there twice", attribute)
		}

		text, err := url.PathUnescape(values[0]) // values are percent-encoded
		if err != nil {
			return nil, fault("invalid-cloudevent", "the header ce-%.40s is not percent-encoded", attribute)
		}

		event.Attributes[attribute] = text
	}

	if event.DataType == "" {
		event.DataType = event.Attributes["datacontenttype"]
	}

	if IsJSON(mediaType) {
		if err := CheckJSON(body); err != nil {
			return nil, fault("invalid-json", "the data is not acceptable JSON: %s", err)
		}
	}

	if err := event.check(); err != nil {
		return nil, err
	}

	return []CloudEvent{event}, nil
}

func decodeBatch(body []byte) ([]CloudEvent, error) {
	if err := CheckJSON(body); err != nil {
		return nil, fault("invalid-json", "the batch is not acceptable JSON: %s", err)
	}

	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil || raw == nil {
		return nil, fault("invalid-cloudevent", "the batch is not an array")
	}

	if len(raw) > maxBatch {
		return nil, fault("too-large", "the batch has %d events, at most %d are taken", len(raw), maxBatch)
	}

	events := make([]CloudEvent, 0, len(raw))

	for i, text := range raw {
		event, err := decodeStructured(text)
		if err != nil {
			return nil, fault("invalid-cloudevent", "event %d: %s", i, err)
		}

		events = append(events, event)
	}

	return events, nil
}

// Into copies the attributes of the event. Its delivery id is source and id, which together identify an event.
func (e *CloudEvent) Into(a *resources.EventAttributes) {
	a.CESource, a.Type, a.Subject = e.Attributes["source"], e.Attributes["type"], e.Attributes["subject"]
	a.DeliveryID = a.CESource + "\n" + e.Attributes["id"]
	a.DataContentType = e.DataType

	if t, err := time.Parse(time.RFC3339, e.Attributes["time"]); err == nil {
		a.Time = t.UTC()
	}
}
