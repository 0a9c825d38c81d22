package trigger

import (
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
)

// handled remembers which version of each state-like event was looked at, one entry for each event that exists. It spares
// the journal a question for every doubled reconcile. The zero value is ready to use.
type handled struct {
	mu    sync.Mutex // guards byKey
	byKey map[string]string
}

func place(ptr resource.Pointer) string { return ptr.Type() + "/" + ptr.ID() }

func (h *handled) is(ptr resource.Pointer, key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.byKey[place(ptr)] == key
}

func (h *handled) note(ptr resource.Pointer, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.byKey == nil {
		h.byKey = map[string]string{}
	}

	h.byKey[place(ptr)] = key
}

func (h *handled) forget(ptr resource.Pointer) {
	h.mu.Lock()
	defer h.mu.Unlock()

	delete(h.byKey, place(ptr))
}
