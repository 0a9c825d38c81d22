package webhooks

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gateway/sources/payload"
)

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
// read; one that is more than small waits for its space.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration, space *space) ([]byte, error) {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}

	connection, deadline := http.NewResponseController(w), time.Now().Add(timeout)

	// Without a deadline of its own a sender could hold a slot of the route for ever. It is taken back afterwards: the
	// server's own reads of the idle connection would run into it and end a request that waits for its outcome.
	err := connection.SetReadDeadline(deadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, refuse(http.StatusBadRequest, "unreadable", "the connection failed")
	}

	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()

	body, err := readAll(ctx, http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit, space)
	if err == nil {
		err = connection.SetReadDeadline(time.Time{})
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}

	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok && tooLong != nil {
		return nil, tooLarge
	}

	if refused, ok := errors.AsType[*refusal](err); ok {
		return nil, refused
	}

	if err != nil {
		return nil, refuse(http.StatusBadRequest, "unreadable", "the body could not be read in time")
	}

	return body, nil
}

// maxBelieved is how much memory is set aside because of a Content-Length alone.
const maxBelieved = 1 << 20

// readAll reads a body of this length, -1 where its sender does not say.
func readAll(ctx context.Context, body io.Reader, length, limit int64, space *space) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(body, freeBody+1))
	if err != nil || len(head) <= freeBody {
		return head, err
	}

	needed := length
	if needed < 0 {
		needed = limit
	}

	if space.take(ctx, needed) != nil {
		return nil, later(http.StatusServiceUnavailable, "busy", "too many large bodies at once")
	}

	// In one piece: what grows would be garbage of the same size again. What a sender only says is believed up to a bound.
	all := bytes.NewBuffer(make([]byte, 0, min(max(length, 2*freeBody), maxBelieved)+bytes.MinRead))
	all.Write(head)
	_, err = all.ReadFrom(body)

	return all.Bytes(), err
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

// decodeContent checks the body as the route's content says, and returns the event's data and its type.
func decodeContent(content string, h http.Header, body []byte) (data []byte, dataType string, err error) {
	typ := mediaType(h)

	switch content {
	case "json":
		if typ != "" && !payload.IsJSON(typ) {
			return nil, "", refuse(http.StatusUnsupportedMediaType, "content-type", "the route takes application/json")
		}

		if err := payload.CheckJSON(body); err != nil {
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

	if lone := values["payload"]; len(values) == 1 && len(lone) == 1 {
		if err := payload.CheckJSON([]byte(lone[0])); err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid-json", "the field payload is not acceptable JSON: %s", err)
		}

		return []byte(lone[0]), nil
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
