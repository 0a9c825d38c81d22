package payload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxAttribute is how long the value of one attribute may be, in bytes: attributes are kept with the event, in the journal
// and in messages, whose limits the data alone is held to.
const maxAttribute = 4096

// texts are the attributes of CloudEvents 1.0 itself: all are strings, and none is empty where it is there.
var texts = []string{"specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time"}

// decodeStructured reads one event in JSON format. Its bytes passed CheckJSON.
func decodeStructured(text []byte) (CloudEvent, error) {
	event := CloudEvent{Attributes: map[string]string{}}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return event, fault("invalid-cloudevent", "the event is not an object")
	}

	data, encoded := fields["data"], fields["data_base64"]
	delete(fields, "data")
	delete(fields, "data_base64")

	for name, value := range fields {
		if err := event.setAttribute(name, value); err != nil {
			return event, err
		}
	}

	if err := event.check(); err != nil {
		return event, err
	}

	return event, event.setData(data, encoded)
}

// setAttribute takes a member of the event. One that is null is not set.
func (e *CloudEvent) setAttribute(name string, value json.RawMessage) error {
	value = bytes.TrimSpace(value)

	if strings.ContainsFunc(name, notInName) || name == "" {
		return fault("invalid-cloudevent", "the attribute %.40q has a name that is not of a-z and 0-9", name)
	}

	switch value[0] {
	case 'n':
		return nil
	case '{', '[':
		return fault("invalid-cloudevent", "the attribute %.40s is neither a string nor a number nor a boolean", name)
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return fault("invalid-cloudevent", "the attribute %.40s is not a string", name)
		}

		e.Attributes[name] = text
	default: // numbers and booleans of extensions
		if slices.Contains(texts, name) {
			return fault("invalid-cloudevent", "the attribute %s is not a string", name)
		}

		e.Attributes[name] = string(value)
	}

	return nil
}

func notInName(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }

// setData takes the data: JSON as it is, a string of another type without its quotes, or base64 of anything.
func (e *CloudEvent) setData(data, encoded json.RawMessage) error {
	e.DataType = e.Attributes["datacontenttype"]

	if data != nil && encoded != nil {
		return fault("invalid-cloudevent", "data and data_base64 exclude each other")
	}

	if encoded != nil {
		var text string
		if json.Unmarshal(encoded, &text) != nil || bytes.Equal(bytes.TrimSpace(encoded), []byte("null")) {
			return fault("invalid-cloudevent", "data_base64 is not a string")
		}

		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fault("invalid-cloudevent", "data_base64 is not base64")
		}

		e.Data = decoded

		return nil
	}

	if data == nil {
		return nil
	}

	if e.DataType == "" {
		e.DataType = "application/json"
	}

	e.Data = data

	if mediaType, _, err := mime.ParseMediaType(e.DataType); err == nil && !IsJSON(mediaType) {
		var text string
		if json.Unmarshal(data, &text) == nil && data[0] == '"' {
			e.Data = []byte(text)
		}
	}

	return nil
}

// check holds the attributes to the specification. It asks for their meaning only where the gateway itself uses it.
func (e *CloudEvent) check() error {
	if e.Attributes["specversion"] != "1.0" {
		return fault("invalid-cloudevent", "specversion is not 1.0")
	}

	for _, name := range []string{"id", "source", "type"} {
		if strings.TrimSpace(e.Attributes[name]) == "" {
			return fault("invalid-cloudevent", "the attribute %s is required", name)
		}
	}

	for name, text := range e.Attributes {
		switch {
		case len(text) > maxAttribute:
			return fault("invalid-cloudevent", "the attribute %.40s has %d bytes, at most %d are taken", name, len(text), maxAttribute)
		case !utf8.ValidString(text):
			return fault("invalid-cloudevent", "the attribute %.40s has invalid UTF-8", name)
		case strings.ContainsFunc(text, unicode.IsControl):
			return fault("invalid-cloudevent", "the attribute %.40s has a control character", name)
		case strings.TrimSpace(text) == "" && slices.Contains(texts, name):
			return fault("invalid-cloudevent", "the attribute %s is empty", name)
		}
	}

	return e.checkForms()
}

// checkForms checks those attributes that have a form.
func (e *CloudEvent) checkForms() error {
	if _, err := url.Parse(e.Attributes["source"]); err != nil {
		return fault("invalid-cloudevent", "source is not a URI reference")
	}

	if text, ok := e.Attributes["dataschema"]; ok {
		if schema, err := url.Parse(text); err != nil || !schema.IsAbs() {
			return fault("invalid-cloudevent", "dataschema is not a URI")
		}
	}

	if text, ok := e.Attributes["time"]; ok {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return fault("invalid-cloudevent", "time is not RFC 3339")
		}
	}

	if text, ok := e.Attributes["datacontenttype"]; ok {
		if _, _, err := mime.ParseMediaType(text); err != nil {
			return fault("invalid-cloudevent", "datacontenttype is not a media type")
		}
	}

	return nil
}
