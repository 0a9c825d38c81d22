package documents

import (
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
)

// locks are one lock for each root that there ever was, by the id of its FileRoot: roots are few. The zero value is ready
// to use.
type locks struct {
	mu   sync.Mutex // guards byID
	byID map[resource.ID]*sync.RWMutex
}

func (l *locks) of(root resource.ID) *sync.RWMutex {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.byID == nil {
		l.byID = map[resource.ID]*sync.RWMutex{}
	}

	lock, ok := l.byID[root]
	if !ok {
		lock = &sync.RWMutex{}
		l.byID[root] = lock
	}

	return lock
}

// visited is a set of files. The zero value is ready to use.
type visited struct {
	mu  sync.Mutex // guards ids
	ids map[resource.ID]bool
}

// first reports whether the file was not visited before, and notes that it is.
func (v *visited) first(id resource.ID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()

	if v.ids == nil {
		v.ids = map[resource.ID]bool{}
	}

	first := !v.ids[id]
	v.ids[id] = true

	return first
}

func (v *visited) forget(id resource.ID) {
	v.mu.Lock()
	defer v.mu.Unlock()

	delete(v.ids, id)
}
