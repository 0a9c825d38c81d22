package webhooks

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gateway/resources"
)

// maxBatch is how many events one CloudEvents batch may have: each becomes a resource.
const maxBatch = 1000

// cloudEvent is an incoming event: CloudEvents 1.0.
type cloudEvent struct {
	attributes map[string]string
	data       []byte
	dataType   string
}

// decodeCloudEvents reads binary, structured and batched events (CloudEvents 1.0, HTTP binding).
func decodeCloudEvents(h http.Header, body []byte) ([]cloudEvent, error) {
	switch typ := mediaType(h); {
	case typ == "application/cloudevents-batch+json":
		return decodeBatch(body)
	case strings.HasPrefix(typ, "application/cloudevents"):
		if !strings.HasSuffix(typ, "+json") {
			return nil, refuse(http.StatusUnsupportedMediaType, "content-type", "of the structured formats only JSON is taken")
		}

		if err := checkJSON(body); err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid-json", "the event is not acceptable JSON: %s", err)
		}

		event, err := decodeStructured(body)

		return []cloudEvent{event}, err
	}

	event := cloudEvent{attributes: map[string]string{}, data: body, dataType: h.Get("Content-Type")}

	for name, values := range h {
		if attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-"); ok && len(values) == 1 {
			text, err := url.PathUnescape(values[0]) // values are percent-encoded
			if err != nil {
				return nil, refuse(http.StatusBadRequest, "invalid-cloudevent", "the header %s is not percent-encoded", strings.ToLower(name))
			}

			event.attributes[attribute] = text
		}
	}

	if isJSON(mediaType(h)) {
		if err := checkJSON(body); err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid-json", "the data is not acceptable JSON: %s", err)
		}
	}

	return []cloudEvent{event}, event.check()
}

func decodeBatch(body []byte) ([]cloudEvent, error) {
	if err := checkJSON(body); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid-json", "the batch is not acceptable JSON: %s", err)
	}

	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid-cloudevent", "the batch is not an array")
	}

	if len(raw) > maxBatch {
		return nil, refuse(http.StatusRequestEntityTooLarge, "too-large", "the batch has %d events, at most %d are taken", len(raw), maxBatch)
	}

	events := make([]cloudEvent, 0, len(raw))

	for i, text := range raw {
		event, err := decodeStructured(text)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid-cloudevent", "event %d: %s", i, err)
		}

		events = append(events, event)
	}

	return events, nil
}

// decodeStructured reads one event in JSON format.
func decodeStructured(text []byte) (cloudEvent, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return cloudEvent{}, refuse(http.StatusBadRequest, "invalid-cloudevent", "the event is not an object")
	}

	event := cloudEvent{attributes: map[string]string{}}

	for name, value := range fields {
		switch name {
		case "data":
			event.data = value
		case "data_base64":
			var encoded string
			if json.Unmarshal(value, &encoded) != nil {
				return event, refuse(http.StatusBadRequest, "invalid-cloudevent", "data_base64 is not a string")
			}

			data, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return event, refuse(http.StatusBadRequest, "invalid-cloudevent", "data_base64 is not base64")
			}

			event.data = data
		default:
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(bytes.TrimSpace(value)) // numbers and booleans of extensions
			}

			event.attributes[name] = text
		}
	}

	event.dataType = event.attributes["datacontenttype"]
	if event.dataType == "" && event.data != nil {
		event.dataType = "application/json"
	}

	return event, event.check()
}

// check looks for the required attributes.
func (e *cloudEvent) check() error {
	if e.attributes["specversion"] != "1.0" {
		return refuse(http.StatusBadRequest, "invalid-cloudevent", "specversion is not 1.0")
	}

	for _, name := range []string{"id", "source", "type"} {
		if e.attributes[name] == "" {
			return refuse(http.StatusBadRequest, "invalid-cloudevent", "the attribute %s is required", name)
		}
	}

	if text := e.attributes["time"]; text != "" {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return refuse(http.StatusBadRequest, "invalid-cloudevent", "time is not RFC 3339")
		}
	}

	return nil
}

// into copies the attributes of the event.
func (e *cloudEvent) into(a *resources.EventAttributes) {
	a.CESource, a.Type, a.Subject = e.attributes["source"], e.attributes["type"], e.attributes["subject"]
	a.DeliveryID = a.CESource + "\n" + e.attributes["id"]
	a.DataContentType = e.dataType

	if t, err := time.Parse(time.RFC3339, e.attributes["time"]); err == nil {
		a.Time = t.UTC()
	}
}
