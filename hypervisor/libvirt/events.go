//go:build libvirt_dlopen

package libvirt

import (
	"context"
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

// Events implements hypervisor.Driver.
func (d *driver) Events(ctx context.Context, ready func(), fn func(hypervisor.Event)) error {
	q := newQueue()

	ids, err := call(ctx, d, request{doing: "subscribing to the events of", subject: d.uri, lane: d.reads}, func(c *libvirt.Connect) ([]int, error) {
		return d.subscribe(c, q)
	})
	if err != nil {
		return err
	}

	defer d.unsubscribe(ids)

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

// subscribe registers for what happens to domains. Tunable events are not among it: the bindings panic on them.
func (d *driver) subscribe(c *libvirt.Connect, q *queue) ([]int, error) {
	lifecycle, err := c.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
		kind, detail := kindOf(e)
		q.put(eventOf(dom, kind, detail))
	})
	if err != nil {
		return nil, err
	}

	ids := []int{lifecycle}
	d.note(ids)

	reboot, err := c.DomainEventRebootRegister(nil, func(_ *libvirt.Connect, dom *libvirt.Domain) {
		q.put(eventOf(dom, hypervisor.EventRebooted, "guest"))
	})

	switch {
	case err == nil:
		ids = append(ids, reboot)
		d.note(ids)
	case known(err) != nil:
		return nil, err
	}

	return ids, nil
}

// note keeps callbacks for Close, which may come while they are being registered.
func (d *driver) note(ids []int) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for _, id := range ids {
		if d.subscriptions != nil {
			d.subscriptions[id] = struct{}{}
		}
	}
}

// unsubscribe lets go of callbacks, in the background: a hung daemon must not hold up whoever ends a subscription. Where
// the connection is lost or closed, Close does it.
func (d *driver) unsubscribe(ids []int) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()

	// What could not be deregistered goes with the connection.
	_ = do(ctx, d, request{doing: "unsubscribing from the events of", subject: d.uri, lane: d.reads}, func(c *libvirt.Connect) error {
		for _, id := range ids {
			if err := c.DomainEventDeregister(id); err != nil {
				return err
			}

			d.mu.Lock()
			delete(d.subscriptions, id)
			d.mu.Unlock()
		}

		return nil
	})
}

// eventOf runs on libvirt's event loop: name and UUID are in the handle, no call is made.
func eventOf(dom *libvirt.Domain, kind hypervisor.EventKind, detail string) hypervisor.Event {
	e := hypervisor.Event{Kind: kind, Detail: detail, Time: time.Now()}

	// They fail only for a handle that is none; an event without a name still says: look again.
	e.Domain, _ = dom.GetName()
	e.DomainUUID, _ = dom.GetUUIDString()

	return e
}
