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
	// callbacks are what is registered with conn; nil: nothing yet.
	callbacks []int
	conn      *libvirt.Connect
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

// note keeps the callbacks for deregister. Callbacks that were noted are not registered again.
func (s *subscribers) note(c *libvirt.Connect, ids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.conn, s.callbacks = c, ids
}

func (s *subscribers) registered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.callbacks != nil
}

// deregister takes the callbacks off, when nobody uses the connection any more.
func (s *subscribers) deregister() {
	s.mu.Lock()
	ids, conn := s.callbacks, s.conn
	s.mu.Unlock()

	for _, id := range ids {
		// It fails where the connection is lost: then there is nothing registered any more.
		_ = conn.DomainEventDeregister(id)
	}
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

// register asks for what happens to domains, once. Tunable events are not among it: the bindings panic on them. Of the
// kinds other than the lifecycle a hypervisor may know some or none.
func (d *driver) register(c *libvirt.Connect) error {
	if d.subscribers.registered() {
		return nil
	}

	var ids []int

	for _, register := range d.registrations(c) {
		id, err := register()
		if known(err) != nil {
			for _, id := range ids {
				err = errors.Join(err, c.DomainEventDeregister(id))
			}

			return err
		}

		if err == nil {
			ids = append(ids, id)
		}
	}

	d.subscribers.note(c, ids)

	return nil
}

// registrations are the kinds of events that say that a domain may be another one than before.
func (d *driver) registrations(c *libvirt.Connect) []func() (int, error) {
	other := func(dom *libvirt.Domain, detail string) {
		d.subscribers.put(eventOf(dom, hypervisor.EventOther, detail))
	}

	return []func() (int, error){
		func() (int, error) {
			return c.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
				kind, detail := kindOf(e)
				d.subscribers.put(eventOf(dom, kind, detail))
			})
		},
		func() (int, error) {
			return c.DomainEventRebootRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain) {
				d.subscribers.put(eventOf(dom, hypervisor.EventRebooted, "guest"))
			})
		},
		func() (int, error) {
			return c.DomainEventDeviceAddedRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventDeviceAdded) {
				other(dom, "device added: "+e.DevAlias)
			})
		},
		func() (int, error) {
			return c.DomainEventDeviceRemovedRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventDeviceRemoved) {
				other(dom, "device removed: "+e.DevAlias)
			})
		},
		func() (int, error) {
			return c.DomainEventDeviceRemovalFailedRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventDeviceRemovalFailed) {
				other(dom, "device not removed: "+e.DevAlias)
			})
		},
		func() (int, error) {
			return c.DomainEventBalloonChangeRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventBalloonChange) {
				other(dom, fmt.Sprintf("memory: %d KiB", e.Actual))
			})
		},
		func() (int, error) {
			return c.DomainEventMetadataChangeRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, _ *libvirt.DomainEventMetadataChange) {
				other(dom, "metadata")
			})
		},
	}
}

// eventOf runs on libvirt's event loop: name and UUID are in the handle, no call is made.
func eventOf(dom *libvirt.Domain, kind hypervisor.EventKind, detail string) hypervisor.Event {
	e := hypervisor.Event{Kind: kind, Detail: detail, Time: time.Now()}

	// They fail only for a handle that is none; an event without a name still says: look again.
	e.Domain, _ = dom.GetName()
	e.DomainUUID, _ = dom.GetUUIDString()

	return e
}
