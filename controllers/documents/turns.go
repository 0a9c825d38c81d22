package documents

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/resources"
)

// turns keeps the order of messages that one sender sends about one object: one that waits, for an object in teardown or
// after an error, is not overtaken by what was sent after it. It knows every message that this process has looked at and not
// yet handled, and those that were there before. The zero value is ready to use.
type turns struct {
	mu     sync.Mutex // guards the following
	loaded bool
	// waiting has when a message came, by what it is about; about is the index of it.
	waiting map[string]map[resource.ID]time.Time
	about   map[resource.ID][]string
}

// take notes a message that is to be handled.
func (t *turns) take(id resource.ID, m message, documents []config.Document) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.about == nil {
		t.waiting, t.about = map[string]map[resource.ID]time.Time{}, map[resource.ID][]string{}
	}

	if _, known := t.about[id]; known {
		return
	}

	t.about[id] = nil

	for _, d := range documents {
		object := m.origin().String() + "\x00" + objectName(d.Kind.Name, d.Resource.Metadata().ID())

		if t.waiting[object] == nil {
			t.waiting[object] = map[resource.ID]time.Time{}
		}

		t.waiting[object][id] = m.attributes.Received
		t.about[id] = append(t.about[id], object)
	}
}

// has reports whether it is the message's turn: nothing that came before it is about the same.
func (t *turns) has(id resource.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, object := range t.about[id] {
		mine := t.waiting[object][id]

		for other, at := range t.waiting[object] {
			if at.Before(mine) || at.Equal(mine) && other < id {
				return false
			}
		}
	}

	return true
}

// end notes that a message was handled, or is gone.
func (t *turns) end(id resource.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, object := range t.about[id] {
		delete(t.waiting[object], id)

		if len(t.waiting[object]) == 0 {
			delete(t.waiting, object)
		}
	}

	delete(t.about, id)
}

// loadTurns finds the messages that were there when the controller started: they are handled in any order at first.
func (c *Controller) loadTurns(ctx context.Context, r controller.QRuntime) error {
	c.turns.mu.Lock()
	loaded := c.turns.loaded
	c.turns.mu.Unlock()

	if loaded {
		return nil
	}

	for _, typ := range []resource.Type{resources.WebhookEventType, resources.MessageEventType} {
		list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceEvents, typ, "", resource.VersionUndefined))
		if err != nil {
			return fmt.Errorf("error listing the messages: %w", err)
		}

		for _, event := range list.Items {
			m, ok := messageOf(event)
			if !ok || m.rule == nil || !event.Metadata().Finalizers().Has(resources.FinalizerDocuments) {
				continue
			}

			// What can't be decoded is about nothing, and nobody waits for it.
			if documents, err := m.documents(); err == nil {
				c.turns.take(event.Metadata().ID(), m, documents)
			}
		}
	}

	c.turns.mu.Lock()
	defer c.turns.mu.Unlock()

	c.turns.loaded = true

	return nil
}
