package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gateway/resources"
)

// What nearly all statuses have, the envelope and the conditions, is written by hand: encoding/json takes three times as long for
// it, which was a fifth of what a published status costs. All else is left to it.

// maxScratch is how large a buffer is kept for the next message: nearly all of them take 1 KiB.
const maxScratch = 64 << 10

// scratch is what messages are put together in, one after the other. It is owned by the sink's goroutine.
type scratch struct {
	event []byte
	data  bytes.Buffer
	// rest is a status without its conditions.
	rest resources.VMStatusSpec
}

// marshal encodes an event.
func (s *scratch) marshal(e *cloudEvent) ([]byte, error) {
	b := append(s.event[:0], '{')
	b = appendField(b, "specversion", e.SpecVersion)
	b = appendField(b, "id", e.ID)
	b = appendField(b, "source", e.Source)
	b = appendField(b, "type", e.Type)
	b = appendField(b, "subject", e.Subject)
	b = append(appendTime(append(b, `"time":`...), e.Time), ',')
	b = appendField(b, "datacontenttype", e.DataContentType)
	b = appendField(b, "gatewayrevision", e.Revision)

	if e.Cause != "" {
		b = appendField(b, "gatewaycause", e.Cause)
	}

	b, err := s.appendData(append(b, `"data":`...), e.Data)
	if err != nil {
		return nil, err
	}

	b = append(b, '}')
	if cap(b) <= maxScratch {
		s.event = b
	}

	return bytes.Clone(b), nil
}

// appendData adds the data of an event.
func (s *scratch) appendData(b []byte, data any) ([]byte, error) {
	vm, ok := data.(vmData)
	if !ok || len(vm.Conditions) == 0 {
		return s.appendJSON(b, data)
	}

	s.rest = *vm.VMStatusSpec
	s.rest.Conditions = nil

	b, err := s.appendJSON(b, vmData{Name: vm.Name, VMStatusSpec: &s.rest})
	s.rest = resources.VMStatusSpec{}

	if err != nil {
		return nil, err
	}

	// An object that has a name: what is added comes before its last brace.
	b = append(b[:len(b)-1], `,"conditions":[`...)

	for i := range vm.Conditions {
		b = append(appendCondition(b, &vm.Conditions[i]), ',')
	}

	b[len(b)-1] = ']'

	return append(b, '}'), nil
}

// appendJSON adds what encoding/json makes of a value.
func (s *scratch) appendJSON(b []byte, value any) ([]byte, error) {
	if s.data.Cap() > maxScratch {
		s.data = bytes.Buffer{}
	}

	s.data.Reset()

	if err := json.NewEncoder(&s.data).Encode(value); err != nil {
		return nil, fmt.Errorf("error encoding the data: %w", err)
	}

	return append(b, bytes.TrimSuffix(s.data.Bytes(), []byte("\n"))...), nil
}

func appendCondition(b []byte, c *resources.Condition) []byte {
	b = append(b, '{')
	b = appendField(b, "type", c.Type)
	b = appendField(b, "status", string(c.Status))
	b = appendField(b, "reason", c.Reason)

	if c.Message != "" {
		b = appendField(b, "message", c.Message)
	}

	return append(appendTime(append(b, `"since":`...), c.Since), '}')
}

// appendField adds a member that is a string, and the comma behind it. name needs no escapes.
func appendField(b []byte, name, value string) []byte {
	b = append(append(append(b, '"'), name...), `":`...)

	return append(appendString(b, value), ',')
}

// appendString adds a string. One with anything in it that JSON or HTML has to escape is left to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, err := json.Marshal(s)
			if err != nil { // no string is refused
				return strconv.AppendQuoteToASCII(b, s)
			}

			return append(b, escaped...)
		}
	}

	return append(append(append(b, '"'), s...), '"')
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}
