package documents

import (
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
)

// waiting remembers since when this process knows what it could not do at once. When something was created is of no use for
// that: the clock may have been set since. After a restart all of it begins anew. The zero value is ready to use.
type waiting struct {
	mu    sync.Mutex // guards first
	first map[resource.ID]time.Time
}

// since returns for how long it was waited for something: not at all when it is asked for the first time.
func (w *waiting) since(id resource.ID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.first == nil {
		w.first = map[resource.ID]time.Time{}
	}

	first, known := w.first[id]
	if !known {
		first = time.Now()
		w.first[id] = first
	}

	return time.Since(first)
}

// end forgets what was done, or is gone.
func (w *waiting) end(id resource.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()

	delete(w.first, id)
}
