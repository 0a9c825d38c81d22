//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
)

// maxQueued bounds the events that wait to be handed on: about 20 MB, or half a second of what the in-process test
// driver can send at most. Where it is reached events are lost, as when the connection is, and are answered the same way.
const maxQueued = 100_000

// queue takes events from libvirt's event loop, which must not wait, to the goroutine of a subscriber.
type queue struct {
	mu       sync.Mutex // guards events and overflow
	events   []hypervisor.Event
	overflow bool
	// wake has room for one: that there is something, however much.
	wake chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(e hypervisor.Event) {
	q.mu.Lock()
	if len(q.events) < maxQueued {
		q.events = append(q.events, e)
	} else {
		q.overflow = true
	}
	q.mu.Unlock()

	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) take() (events []hypervisor.Event, overflow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	events, q.events = q.events, nil

	return events, q.overflow
}

// subscribers share the callbacks of a connection: libvirt takes one for each kind of event. They are registered for the
// first subscriber and stay until the connection is closed.
type subscribers struct {
	mu     sync.Mutex // guards the following
	queues map[*queue]struct{}
	// callbacks are what is registered; nil: nothing yet.
	callbacks []int
}

func (s *subscribers) add(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.queues == nil {
		s.queues = map[*queue]struct{}{}
	}

	s.queues[q] = struct{}{}
}

func (s *subscribers) remove(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.queues, q)
}

// put gives an event to all. It runs on libvirt's event loop.
func (s *subscribers) put(e hypervisor.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for q := range s.queues {
		q.put(e)
	}
}

// note keeps the callbacks for Close. Callbacks that were noted are not registered again.
func (s *subscribers) note(ids ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.callbacks = append(s.callbacks, ids...)
}

func (s *subscribers) registered() []int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.callbacks
}

// Events implements hypervisor.Driver.
func (d *driver) Events(ctx context.Context, ready func(), fn func(hypervisor.Event)) error {
	q := newQueue()
	d.subscribers.add(q)
	defer d.subscribers.remove(q)

	r := request{doing: "subscribing to the events of", subject: d.uri, lane: d.reads, key: "events"}
	if err := do(ctx, d, r, d.register); err != nil {
		return err
	}

	ready()

	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return fmt.Errorf("error receiving events of %s: %w", d.uri, context.Cause(ctx))
		case <-d.lost:
			return fmt.Errorf("error receiving events of %s: %w", d.uri, d.lostError())
		}

		events, overflow := q.take()
		for _, e := range events {
			fn(e)
		}

		if overflow {
			d.lose(fmt.Errorf("%w: more than %d events waited", hypervisor.ErrConnectionLost, maxQueued))
		}
	}
}

// register asks for what happens to domains, once. Tunable events are not among it: the bindings panic on them.
func (d *driver) register(c *libvirt.Connect) error {
	if d.subscribers.registered() != nil {
		return nil
	}

	reboot, err := c.DomainEventRebootRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain) {
		d.subscribers.put(eventOf(dom, hypervisor.EventRebooted, "guest"))
	})
	if known(err) != nil {
		return err
	}

	reboots := err == nil

	lifecycle, err := c.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
		kind, detail := kindOf(e)
		d.subscribers.put(eventOf(dom, kind, detail))
	})

	switch {
	case err != nil && reboots:
		return errors.Join(err, c.DomainEventDeregister(reboot))
	case err != nil:
		return err
	case reboots:
		d.subscribers.note(lifecycle, reboot)
	default:
		d.subscribers.note(lifecycle)
	}

	return nil
}

// eventOf runs on libvirt's event loop: name and UUID are in the handle, no call is made.
func eventOf(dom *libvirt.Domain, kind hypervisor.EventKind, detail string) hypervisor.Event {
	e := hypervisor.Event{Kind: kind, Detail: detail, Time: time.Now()}

	// They fail only for a handle that is none; an event without a name still says: look again.
	e.Domain, _ = dom.GetName()
	e.DomainUUID, _ = dom.GetUUIDString()

	return e
}
