package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Types of a change.
const (
	Current = "current" // at the start
	Synced  = "synced"  // all current ones were sent
	Changed = "changed"
	Deleted = "deleted"
)

// Change is one step of a watch.
type Change struct {
	Type string `json:"type"`
	// Object is nil with Synced and Deleted.
	Object *Object `json:"object,omitempty"`
	Kind   string  `json:"kind,omitempty"`
	Name   string  `json:"name,omitempty"`
}

const (
	// reconnectFor is how long a watch that lost its gateway looks for it: a restart takes a second or two.
	reconnectFor   = 15 * time.Second
	reconnectEvery = 200 * time.Millisecond
	// maxLine bounds one change: an object is at most a document of 4 MiB and its status.
	maxLine = 16 << 20
)

// errStop ends a watch from within.
var errStop = errors.New("enough")

// Watch calls visit for every current object of a kind, for Synced, and then for each change, until ctx ends (nil) or visit
// returns false. A gateway that is restarted is followed on; what was deleted meanwhile is found out. name and selector may be
// empty.
func (c *Client) Watch(ctx context.Context, kind, name, selector string, visit func(Change) (bool, error)) error {
	w := &watch{client: c, query: url.Values{}, kind: kind, visit: visit}

	for key, value := range map[string]string{"name": name, "selector": selector} {
		if value != "" {
			w.query.Set(key, value)
		}
	}

	return w.run(ctx)
}

// watch is one Watch.
type watch struct {
	client *Client
	query  url.Values
	kind   string
	visit  func(Change) (bool, error)
	// known are the objects that visit was told of, and fresh those of the current connection until it is synced.
	known, fresh map[string]bool
	synced       bool
	// failed is the error of visit, which ends the watch.
	failed error
}

func (w *watch) run(ctx context.Context) error {
	var lost time.Time

	for {
		connected, err := w.follow(ctx)

		switch {
		case errors.Is(err, errStop):
			return w.failed
		case ctx.Err() != nil:
			return nil
		case connected:
			lost = time.Now()
		case isProblem(err) || lost.IsZero() || time.Since(lost) > reconnectFor:
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectEvery):
		}
	}
}

// isProblem reports whether the gateway answered, and refused.
func isProblem(err error) bool {
	_, ok := errors.AsType[*ProblemError](err)

	return ok
}

// follow reads one connection to its end. connected reports whether there was one; the error is errStop when visit had enough.
func (w *watch) follow(ctx context.Context) (connected bool, err error) {
	response, err := w.client.open(ctx, http.MethodGet, "/v1/watch/"+url.PathEscape(w.kind), w.query, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close() //nolint:errcheck // the stream ends here anyway

	w.fresh, w.synced = map[string]bool{}, false
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)

	for lines.Scan() {
		var change Change
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			return false, fmt.Errorf("error reading the gateway's answer: %w", err)
		}

		goOn, err := w.step(change)
		if !goOn || err != nil {
			w.failed = err

			return true, errStop
		}
	}

	// A change that is too long would be as long the next time; all other ends are those of a connection.
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		w.failed = fmt.Errorf("error reading the gateway's answer: %w", lines.Err())

		return true, errStop
	}

	return true, nil
}

// step passes one change on.
func (w *watch) step(change Change) (bool, error) {
	switch change.Type {
	case Synced:
		if goOn, err := w.vanished(); !goOn || err != nil {
			return goOn, err
		}

		first := w.known == nil
		w.known, w.synced = w.fresh, true

		if !first {
			return true, nil
		}
	case Current:
		w.fresh[change.Name] = true
	case Deleted:
		delete(w.known, change.Name)
	default:
		if w.synced {
			w.known[change.Name] = true
		}
	}

	return w.visit(change)
}

// vanished tells of the objects that went away between two connections.
func (w *watch) vanished() (bool, error) {
	for name := range w.known {
		if w.fresh[name] {
			continue
		}

		if goOn, err := w.visit(Change{Type: Deleted, Kind: w.kind, Name: name}); !goOn || err != nil {
			return goOn, err
		}
	}

	return true, nil
}
