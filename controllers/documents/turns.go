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
// yet handled, and those that came before them. The zero value is ready to use.
type turns struct {
	listing sync.Mutex // is held while messages are listed; before mu

	mu sync.Mutex // guards the following
	// waiting has the places of messages, by what they are about; about is the index of it.
	waiting map[string]map[resource.ID]place
	about   map[resource.ID][]string
}

// place is where a message stands among those of its sender: by its number, which is that of the stream that it comes from, as
// what is delivered again comes late, or else was given when it was taken in. It is of all messages of a sender, so that there
// is no circle of messages that wait for each other. When it came decides between messages with one number.
type place struct {
	sequence uint64
	at       time.Time
}

// before reports whether a message was sent before another; ids decide between those that came in one instant.
func (p place) before(other place, id, otherID resource.ID) bool {
	switch {
	case p.sequence != other.sequence:
		return p.sequence < other.sequence
	case !p.at.Equal(other.at):
		return p.at.Before(other.at)
	default:
		return id < otherID
	}
}

// take notes a message that is to be handled.
func (t *turns) take(id resource.ID, m message, documents []config.Document) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.about == nil {
		t.waiting, t.about = map[string]map[resource.ID]place{}, map[resource.ID][]string{}
	}

	if _, known := t.about[id]; known {
		return
	}

	t.about[id] = nil

	for _, d := range documents {
		object := m.origin().String() + "\x00" + objectName(d.Kind.Name, d.Resource.Metadata().ID())

		if t.waiting[object] == nil {
			t.waiting[object] = map[resource.ID]place{}
		}

		t.waiting[object][id] = place{m.attributes.Sequence, m.attributes.Received}
		t.about[id] = append(t.about[id], object)
	}
}

// has reports whether it is the message's turn: nothing that was sent before it is about the same.
func (t *turns) has(id resource.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, object := range t.about[id] {
		mine := t.waiting[object][id]

		for other, theirs := range t.waiting[object] {
			if other != id && theirs.before(mine, other, id) {
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

// knows reports whether a message has its place.
func (t *turns) knows(id resource.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	_, known := t.about[id]

	return known
}

// lineUp gives a message its place, and with it all that are there and have none yet: those that were there when the controller
// started, and those that came before this one and that another worker is about to look at. A burst is listed once, as a list
// has all of it.
func (c *Controller) lineUp(ctx context.Context, r controller.QRuntime, id resource.ID) error {
	c.turns.listing.Lock()
	defer c.turns.listing.Unlock()

	if c.turns.knows(id) {
		return nil
	}

	for _, typ := range []resource.Type{resources.WebhookEventType, resources.MessageEventType} {
		list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceEvents, typ, "", resource.VersionUndefined))
		if err != nil {
			return fmt.Errorf("error listing the messages: %w", err)
		}

		for _, event := range list.Items {
			m, ok := messageOf(event)
			if !ok || m.rule == nil || !event.Metadata().Finalizers().Has(resources.FinalizerDocuments) || c.turns.knows(event.Metadata().ID()) {
				continue
			}

			// What can't be decoded is about nothing, and nobody waits for it.
			if documents, err := m.documents(); err == nil {
				c.turns.take(event.Metadata().ID(), m, documents)
			}
		}
	}

	return nil
}
