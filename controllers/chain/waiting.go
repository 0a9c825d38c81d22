package chain

import (
	"sync"
	"time"
)

// Waiting remembers since when this process knows what it could not do at once. When something was created is of no use for
// that: the clock may have been set since. After a restart all of it begins anew. The zero value is ready to use, by many at once.
type Waiting struct {
	mu    sync.Mutex // guards first
	first map[string]begun
}

type begun struct {
	state string
	at    time.Time
}

// Since returns for how long id was waited for as it is now: not at all when that is asked for the first time, or for another
// state than before.
func (w *Waiting) Since(id, state string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.first == nil {
		w.first = map[string]begun{}
	}

	first, known := w.first[id]
	if !known || first.state != state {
		first = begun{state, time.Now()}
		w.first[id] = first
	}

	return time.Since(first.at)
}

// End forgets what was done, or is gone.
func (w *Waiting) End(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	delete(w.first, id)
}
