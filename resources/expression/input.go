package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Event is what the variable `event` holds.
type Event struct {
	ID      string    `cel:"id"`
	Source  string    `cel:"source"`
	Name    string    `cel:"name"`
	Type    string    `cel:"type"`
	Subject string    `cel:"subject"`
	Time    time.Time `cel:"time"`
	// Headers have lower-case names.
	Headers map[string]string `cel:"headers"`
	// Data is the payload as Data made it; null where there is none.
	Data any `cel:"data"`
}

// Input is what an expression is evaluated over.
type Input struct {
	Event Event
	// Objects are what the event names. They are looked at only by expressions whose UsesObjects is true.
	Objects []Object
}

// Data makes the value of `event.data` from a payload: parsed where it is one JSON value, with whole numbers that fit into
// 64 bits exact and all others as doubles; otherwise the text. Bytes that are not UTF-8 stay bytes. An empty payload is null.
func Data(payload []byte) any {
	if len(payload) == 0 {
		return nil
	}

	if value, err := decode(payload); err == nil {
		return exact(value)
	}

	if utf8.Valid(payload) {
		return string(payload)
	}

	return payload
}

// decode reads exactly one JSON value, its numbers as they are written.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()

	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}

	return value, nil
}

// exact turns the numbers of a decoded JSON value into int64 where they are whole and fit, else into float64.
func exact(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}

		f, err := v.Float64()
		if err != nil { // beyond the largest double
			return math.Copysign(math.Inf(1), f)
		}

		return f
	case map[string]any:
		for k, member := range v {
			v[k] = exact(member)
		}
	case []any:
		for i, element := range v {
			v[i] = exact(element)
		}
	}

	return value
}
