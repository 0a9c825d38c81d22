//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"
	"sync"

	"gateway/hypervisor"
)

// locks let one call at a time change an object: libvirt would make a second one wait inside the daemon, where it holds
// up one of the few places that a client has there.
type locks struct {
	mu   sync.Mutex // guards held and the holds in it
	held map[string]*hold
}

// hold is one object under change.
type hold struct {
	key  string
	done chan struct{}
	// stuck reports whether the caller gave up on a call that libvirt has not answered yet.
	stuck bool
}

func newLocks() *locks { return &locks{held: map[string]*hold{}} }

// take waits until nobody else changes the object. An object whose last call is stuck is set aside: it is busy at once,
// so that it doesn't take the time of those who have others to see to.
func (l *locks) take(ctx context.Context, key string) (*hold, error) {
	for {
		l.mu.Lock()

		other := l.held[key]
		if other == nil {
			h := &hold{key: key, done: make(chan struct{})}
			l.held[key] = h
			l.mu.Unlock()

			return h, nil
		}

		stuck := other.stuck
		l.mu.Unlock()

		if stuck {
			return nil, fmt.Errorf("%w: an earlier call has not been answered yet", hypervisor.ErrBusy)
		}

		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: another call is under way: %v", hypervisor.ErrBusy, context.Cause(ctx))
		}
	}
}

// abandon notes that nobody waits for the holder's call any more.
func (l *locks) abandon(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()

	h.stuck = true
}

// release lets the next one in.
func (l *locks) release(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()

	delete(l.held, h.key)
	close(h.done)
}
