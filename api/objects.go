package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/internal/overrides"
	"gateway/resources"
)

// List is the answer to a list.
type List struct {
	Items []config.Object `json:"items"`
}

// join makes objects of a kind's resources and their observed halves.
func (o *Operations) join(ctx context.Context, kind *resources.Kind, selector *resources.Selector) ([]config.Object, error) {
	declared, err := o.state.List(ctx, kind.List())
	if err != nil {
		return nil, fmt.Errorf("error listing %s: %w", kind.Plural, err)
	}

	statuses := map[string]resource.Resource{}

	if status, ok := resources.KindByName(kind.Status); ok {
		observed, err := o.state.List(ctx, status.List())
		if err != nil {
			return nil, fmt.Errorf("error listing %s: %w", status.Plural, err)
		}

		for _, s := range observed.Items {
			statuses[s.Metadata().ID()] = s
		}
	}

	labels, err := overrides.Labels(ctx, o.state.List)
	if err != nil {
		return nil, err
	}

	objects := make([]config.Object, 0, len(declared.Items))

	for _, d := range declared.Items {
		counting := labels.Of(d.Metadata())
		if selector != nil && !selector.Matches(counting) {
			continue
		}

		object := config.NewObject(d, statuses[d.Metadata().ID()])
		object.Metadata.Labels = counting

		if err := o.withApplied(ctx, &object); err != nil {
			return nil, err
		}

		objects = append(objects, object)
	}

	return objects, nil
}

// one returns one object, errNotFound where there is none.
func (o *Operations) one(ctx context.Context, kind *resources.Kind, name string) (config.Object, error) {
	declared, err := o.state.Get(ctx, kind.Pointer(name))
	if state.IsNotFoundError(err) {
		return config.Object{}, fmt.Errorf("%s %q: %w", kind.Name, name, errNotFound)
	}

	if err != nil {
		return config.Object{}, fmt.Errorf("error reading %s %q: %w", kind.Name, name, err)
	}

	var observed resource.Resource

	if status, ok := resources.KindByName(kind.Status); ok {
		observed, err = o.state.Get(ctx, status.Pointer(name))
		if state.IsNotFoundError(err) {
			observed, err = nil, nil
		}

		if err != nil {
			return config.Object{}, fmt.Errorf("error reading the status of %s %q: %w", kind.Name, name, err)
		}
	}

	object := config.NewObject(declared, observed)

	if kind.Name == "VM" {
		over, err := specOf[resources.OverrideSpec](ctx, o.state, "Override", name)
		if err != nil {
			return object, err
		}

		if over != nil {
			object.Metadata.Labels = over.LabelsOver(object.Metadata.Labels)
		}
	}

	err = o.withApplied(ctx, &object)

	return object, err
}

func selectorOf(r *http.Request) (*resources.Selector, error) {
	text := r.URL.Query().Get("selector")
	if text == "" {
		return nil, nil
	}

	selector, err := ParseSelector(text)
	if err != nil {
		return nil, usage("%s", err)
	}

	return selector, nil
}

func (o *operations) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	selector, err := selectorOf(r)
	if err != nil {
		return err
	}

	objects, err := o.join(r.Context(), kind, selector)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, List{Items: objects})

	return nil
}

func (o *operations) get(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	object, err := o.one(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, object)

	return nil
}

// Change is one line of a watch.
type Change struct {
	// Type is current (at the start), synced (all current ones were sent), changed or deleted.
	Type   string         `json:"type"`
	Object *config.Object `json:"object,omitempty"`
	Kind   string         `json:"kind,omitempty"`
	Name   string         `json:"name,omitempty"`
}

// watch sends a line of JSON for each change of an object or its status, after all current ones. It ends when the client
// goes, or when it is too slow to follow: then it has to begin anew.
func (o *operations) watch(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	selector, err := selectorOf(r)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()

	events := make(chan []state.Event)
	watched := []*resources.Kind{kind}

	if kind.Name == fileKind {
		watched = append(watched, resources.KindOf(resources.NewApplyResult("").Metadata()))
	}

	if status, ok := resources.KindByName(kind.Status); ok {
		watched = append(watched, status)
	}

	// The watches begin before the list, so that no change falls between.
	for _, k := range watched {
		if err := o.state.WatchKindAggregated(ctx, k.List(), events); err != nil {
			return fmt.Errorf("error watching %s: %w", k.Plural, err)
		}
	}

	follower := &follower{
		w: w, o: o, kind: kind, name: r.URL.Query().Get("name"), selector: selector, sent: map[string]bool{},
	}

	return follower.run(ctx, events)
}

// follower writes one watch.
type follower struct {
	w        http.ResponseWriter
	o        *operations
	kind     *resources.Kind
	name     string
	selector *resources.Selector
	// sent are the objects that the client knows of.
	sent map[string]bool
}

func (f *follower) run(ctx context.Context, events <-chan []state.Event) error {
	f.w.Header().Set("Content-Type", "application/x-ndjson")

	objects, err := f.o.join(ctx, f.kind, f.selector)
	if err != nil {
		return err
	}

	for i := range objects {
		if f.name == "" || objects[i].Metadata.Name == f.name {
			f.sent[objects[i].Metadata.Name] = true

			if !f.send(Change{Type: "current", Object: &objects[i], Kind: f.kind.Name, Name: objects[i].Metadata.Name}) {
				return nil
			}
		}
	}

	if !f.send(Change{Type: "synced"}) {
		return nil
	}

	for {
		select {
		case <-ctx.Done():
			return nil
		case batch := <-events:
			if !f.batch(ctx, batch) {
				return nil
			}
		}
	}
}

// batch sends the objects that a batch of events is about, each once, as they are now.
func (f *follower) batch(ctx context.Context, batch []state.Event) bool {
	seen := map[string]bool{}

	for _, e := range batch {
		if e.Type == state.Errored {
			return false // overrun: the client begins anew
		}

		if e.Resource == nil {
			continue
		}

		name := e.Resource.Metadata().ID()
		if seen[name] || f.name != "" && name != f.name {
			continue
		}

		seen[name] = true

		object, err := f.o.one(ctx, f.kind, name)
		if err != nil && !errors.Is(err, errNotFound) {
			f.o.Logger.Warn("a watch ends", zap.Error(err))

			return false
		}

		// One whose labels changed away from the selector is gone for this client.
		if err != nil || f.selector != nil && !f.selector.Matches(object.Metadata.Labels) {
			known := f.sent[name]
			delete(f.sent, name)

			if known && !f.send(Change{Type: "deleted", Kind: f.kind.Name, Name: name}) {
				return false
			}

			continue
		}

		f.sent[name] = true

		if !f.send(Change{Type: "changed", Object: &object, Kind: f.kind.Name, Name: name}) {
			return false
		}
	}

	return true
}

// send writes one line and reports whether the client is still there.
func (f *follower) send(c Change) bool {
	encoder := json.NewEncoder(f.w)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(c); err != nil {
		return false
	}

	return http.NewResponseController(f.w).Flush() == nil
}
