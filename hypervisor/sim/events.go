package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gateway/hypervisor"
)

// maxPending is how many events wait for one subscriber: three for each of 5,000 domains that start at once. At 100 bytes
// each that is 1.6 MB. A subscriber that falls behind further has to subscribe and list anew.
const maxPending = 16384

// heldFor is how long a reordered event waits for a later one to overtake it.
const heldFor = 50 * time.Millisecond

// subscriber is one caller of Events, who delivers from the queue in its own goroutine.
type subscriber struct {
	mu       sync.Mutex // guards queue and overflow
	queue    []hypervisor.Event
	overflow bool
	// wake has room for one: what was added before it is taken is found with it.
	wake chan struct{}
}

func (s *subscriber) add(e hypervisor.Event) {
	s.mu.Lock()

	if len(s.queue) >= maxPending {
		s.overflow = true
	} else {
		s.queue = append(s.queue, e)
	}

	s.mu.Unlock()

	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() (events []hypervisor.Event, overflow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	events, s.queue = s.queue, nil

	return events, s.overflow
}

// Events implements hypervisor.Driver.
func (d *driver) Events(ctx context.Context, ready func(), fn func(hypervisor.Event)) error {
	s := &subscriber{wake: make(chan struct{}, 1)}

	err := d.do(ctx, op{call: "Events", doing: "subscribing to the events"}, func() error {
		d.host.subscribers[s] = struct{}{}

		return nil
	})
	if err != nil {
		return err
	}

	defer func() {
		d.host.mu.Lock()
		delete(d.host.subscribers, s)
		d.host.mu.Unlock()
	}()

	ready()

	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("events of %s ended: %w", d.host.name, ctx.Err())
		case <-d.done:
			return fmt.Errorf("events of %s ended: %w", d.host.name, d.lost)
		case <-s.wake:
		}

		events, overflow := s.take()
		for _, e := range events {
			fn(e)
		}

		if overflow {
			return fmt.Errorf("events of %s ended: more than %d were waiting", d.host.name, maxPending)
		}
	}
}

// emit tells all subscribers, in the order in which things happened, unless the faults say otherwise.
func (h *Host) emit(kind hypervisor.EventKind, d *domain, detail string) {
	if len(h.subscribers) == 0 {
		return
	}

	e := hypervisor.Event{Kind: kind, Domain: d.spec.Name, DomainUUID: d.spec.UUID, Detail: detail, Time: time.Now()}

	switch h.eventFault(d.spec.UUID) {
	case eventLost:
	case eventDoubled:
		h.tell(e)
		h.tell(e)
	case eventLate:
		if h.held == nil {
			h.held = &e
			time.AfterFunc(heldFor, func() { h.release(&e) })

			return
		}

		h.tell(e)
	default:
		h.tell(e)
	}

	if late := h.held; late != nil {
		h.held = nil
		h.tell(*late)
	}
}

func (h *Host) tell(e hypervisor.Event) {
	for s := range h.subscribers {
		s.add(e)
	}
}

// release delivers a held event that nothing has overtaken.
func (h *Host) release(e *hypervisor.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.held == e {
		h.held = nil
		h.tell(*e)
	}
}
