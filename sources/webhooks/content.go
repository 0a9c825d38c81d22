package webhooks

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 128

// refusal is an answer that is not 2xx: its status, a word for the metrics, and what the sender is told.
type refusal struct {
	status  int
	reason  string
	message string
	// retryAfter in seconds; 0: no header.
	retryAfter int
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, reason, format string, args ...any) *refusal {
	return &refusal{status: status, reason: reason, message: fmt.Sprintf(format, args...)}
}

// readBody reads the bytes as they were sent, at most limit of them. A body that says it is longer is refused before it is
// read.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, error) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}

	connection := http.NewResponseController(w)

	// Without a deadline of its own a sender could hold a slot of the route for ever. It is taken back afterwards: the
	// server's own reads of the idle connection would run into it and end a request that waits for its outcome.
	err := connection.SetReadDeadline(time.Now().Add(timeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, refuse(http.StatusBadRequest, "unreadable", "the connection failed")
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		err = connection.SetReadDeadline(time.Time{})
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}

	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok && tooLong != nil {
		return nil, tooLarge
	}

	if err != nil {
		return nil, refuse(http.StatusBadRequest, "unreadable", "the body could not be read in time")
	}

	return body, nil
}

// decompress undoes Content-Encoding, where the route takes it.
func decompress(r *http.Request, body []byte, allowed bool, limit int64) ([]byte, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); {
	case encoding == "" || encoding == "identity":
		return body, nil
	case encoding != "gzip" || !allowed:
		return nil, refuse(http.StatusUnsupportedMediaType, "content-encoding", "Content-Encoding is not accepted on this route (spec.gzip)")
	}

	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "content-encoding", "the body is not gzip")
	}

	plain, err := io.ReadAll(io.LimitReader(reader, limit+1))

	switch {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "content-encoding", "the body is not gzip")
	case int64(len(plain)) > limit:
		return nil, refuse(http.StatusRequestEntityTooLarge, "too-large", "the decompressed body is larger than %d bytes", limit)
	}

	return plain, nil
}

// mediaType is the content type without its parameters, in lower case; empty where there is none.
func mediaType(h http.Header) string {
	text := h.Get("Content-Type")
	if text == "" {
		return ""
	}

	typ, _, err := mime.ParseMediaType(text)
	if err != nil {
		return "invalid"
	}

	return typ
}

func isJSON(typ string) bool {
	return typ == "application/json" || typ == "text/json" || strings.HasSuffix(typ, "+json")
}

// decodeContent checks the body as the route's content says, and returns the event's data and its type.
func decodeContent(content string, h http.Header, body []byte) (data []byte, dataType string, err error) {
	typ := mediaType(h)

	switch content {
	case "json":
		if typ != "" && !isJSON(typ) {
			return nil, "", refuse(http.StatusUnsupportedMediaType, "content-type", "the route takes application/json")
		}

		if err := checkJSON(body); err != nil {
			return nil, "", refuse(http.StatusBadRequest, "invalid-json", "the body is not acceptable JSON: %s", err)
		}

		return body, "application/json", nil
	case "form":
		if typ != "application/x-www-form-urlencoded" {
			return nil, "", refuse(http.StatusUnsupportedMediaType, "content-type", "the route takes application/x-www-form-urlencoded")
		}

		data, err := decodeForm(body)

		return data, "application/json", err
	default: // any
		return body, h.Get("Content-Type"), nil
	}
}

// decodeForm makes JSON of a form. A lone field `payload` with JSON in it, as GitHub sends, is the data itself.
func decodeForm(body []byte) ([]byte, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid-form", "the body is not a form")
	}

	if payload := values["payload"]; len(values) == 1 && len(payload) == 1 {
		if err := checkJSON([]byte(payload[0])); err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid-json", "the field payload is not acceptable JSON: %s", err)
		}

		return []byte(payload[0]), nil
	}

	fields := map[string]any{}

	for name, v := range values {
		if len(v) == 1 {
			fields[name] = v[0]
		} else {
			fields[name] = v
		}
	}

	return json.Marshal(fields)
}

// checkJSON refuses what encoding/json would quietly mend: invalid UTF-8, keys that are there twice, and nesting without
// bound. Numbers stay as they were written, because the bytes are kept.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("it has invalid UTF-8")
	}

	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()

	if err := checkValue(decoder, 0); err != nil {
		return err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}

	return nil
}

func checkValue(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()

	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty or cut off")
	case err != nil:
		return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
	}

	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}

	if depth++; depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}

	seen := map[string]bool{}

	for decoder.More() {
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
			}

			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("the key %.40q is there twice", name)
			}

			seen[name] = true
		}

		if err := checkValue(decoder, depth); err != nil {
			return err
		}
	}

	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
	}

	return nil
}
