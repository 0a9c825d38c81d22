package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/internal/overrides"
	"gateway/resources"
)

// entry is what the ledger has of one VM.
type entry struct {
	request
	// host is where the VM is placed, empty while nowhere; reserved is what it takes there.
	host     string
	reserved resources.Capacity
	// claim is the host that a VM on its way will be placed on; it takes need there.
	claim string
	waiting
	// ticket is its place in the queue.
	ticket uint64
}

// waiting is what a VM waits for.
type waiting struct {
	// is reports whether the VM would be somewhere, somewhere else, or larger, if there were room.
	is bool
	// leaving reports whether it is placed and has to be somewhere else.
	leaving bool
	// blocked is the host that has to be asked first.
	blocked string
}

// ledger is the index of all reservations. Decisions are made, and VMPlacements written, under its lock: calls on the
// in-memory state take microseconds. Nothing that waits for a hypervisor or a disk happens under it.
type ledger struct {
	mu sync.Mutex // guards the following

	loaded bool
	// loadedAt is when it was loaded, which is when the runtime began; blank reports that no VM had a placement then, and that
	// none was placed since.
	loadedAt time.Time
	blank    bool
	vms      map[string]*entry
	hosts    map[string]*host
	order    []string // names of hosts, sorted
	// listed is when the hosts were listed: all that were declared before are known.
	listed time.Time
	loads  map[string]*load
	// sizes of images, as far as they are known.
	sizes map[string]resources.Size

	// queue holds the waiting VMs in the order in which they began to wait, with those that stopped waiting in between.
	queue   []waiter
	tickets uint64
	waiters int
	// seekers counts the waiting VMs with `together`: for them alone a new VM on a host is news.
	seekers int
	// dirty are the hosts that may take a waiting VM now; kicked are VMs that have to look again whatever is free.
	dirty  names
	kicked names

	asked asked
}

type waiter struct {
	vm     string
	ticket uint64
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.loaded = false
}

// load rebuilds the index from the state, once.
func (l *ledger) load(ctx context.Context, r controller.UncachedReader) error {
	if l.loaded {
		return nil
	}

	l.vms, l.hosts, l.loads = map[string]*entry{}, map[string]*host{}, map[string]*load{}
	l.order, l.queue, l.waiters, l.seekers = nil, nil, 0, 0
	l.dirty, l.kicked, l.asked = names{}, names{}, newAsked()

	if err := l.list(ctx, r); err != nil {
		return err
	}

	if err := l.listImages(ctx, r); err != nil {
		return err
	}

	configs, err := r.ListUncached(ctx, resources.NewVMConfig("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the VMs: %w", err)
	}

	over, err := overrides.All(ctx, r.ListUncached)
	if err != nil {
		return err
	}

	requests := make(map[resource.ID]request, len(configs.Items))

	for _, item := range configs.Items {
		if vm, ok := item.(*resources.VMConfig); ok {
			requests[vm.Metadata().ID()] = requestOf(overrides.Effective(vm, over[vm.Metadata().ID()]), l.sizes)
		}
	}

	placements, err := r.ListUncached(ctx, resources.NewVMPlacement("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the placements: %w", err)
	}

	for _, item := range placements.Items {
		placement, ok := item.(*resources.VMPlacement)
		if !ok {
			continue
		}

		q, known := requests[placement.Metadata().ID()]
		if !known {
			q.vm = placement.Metadata().ID()
		}

		spec := placement.TypedSpec()
		e := entry{request: q, host: spec.Host, reserved: spec.Reserved}

		if e.host == "" {
			e.claim = spec.Former
		}

		l.set(e)
	}

	l.loaded, l.dirty, l.kicked = true, names{}, names{}
	l.loadedAt, l.blank = time.Now(), len(placements.Items) == 0

	return nil
}

// list takes in the hosts that are not known yet.
func (l *ledger) list(ctx context.Context, r controller.UncachedReader) error {
	now := time.Now()

	hosts, err := r.ListUncached(ctx, resources.NewHost("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the hosts: %w", err)
	}

	for _, item := range hosts.Items {
		if name := item.Metadata().ID(); l.hosts[name] == nil {
			if _, err := l.refresh(ctx, r, name); err != nil {
				return err
			}
		}
	}

	l.listed = now

	return nil
}

// refresh reads a host again and reports whether anything of it changed.
func (l *ledger) refresh(ctx context.Context, r controller.UncachedReader, name string) (changed bool, err error) {
	old := l.hosts[name]

	now, err := readHost(ctx, r, name)
	if err != nil || old.equal(now) {
		return false, err
	}

	if now == nil || now.abandoned || old != nil && old.uri != now.uri {
		l.asked.forget(name) // another machine may answer there, or nobody ever
	}

	if now == nil {
		delete(l.hosts, name)
	} else {
		l.hosts[name] = now
	}

	if (old == nil) != (now == nil) {
		l.order = resources.SortedKeys(l.hosts)
	}

	l.dirty[name] = struct{}{}

	// Whoever is the first to see a change kicks those whom it concerns; its event wakes them. Who is nowhere names the
	// hosts that there are.
	if old == nil || now == nil || old.declared != now.declared {
		l.kickWaiters()
	}

	if old != nil && now != nil {
		switch {
		case old.drain != now.drain || !slices.Equal(old.shared, now.shared) || old.abandoned != now.abandoned || !maps.Equal(old.labels, now.labels):
			l.kick(name, false)
		case old.connected != now.connected:
			l.kick(name, true)
		}
	}

	return true, nil
}

// set replaces what is known of a VM, and notes which hosts may have room by that.
func (l *ledger) set(e entry) {
	old := l.vms[e.vm]
	if old != nil {
		if old.host == e.host && old.reserved == e.reserved && old.claim == e.claim && old.request.equal(&e.request) {
			l.wait(old, e.waiting)

			return
		}

		l.unload(old)
		l.wait(old, waiting{})
	}

	waits := e.waiting
	e.waiting = waiting{}
	l.vms[e.vm] = &e

	if e.host != "" {
		l.of(e.host).add(&e)

		if l.seekers > 0 {
			l.dirty[e.host] = struct{}{}
		}
	}

	if e.claim != "" {
		l.of(e.claim).reserve(e.need, 1)
	}

	l.wait(&e, waits)
}

// forget removes a VM.
func (l *ledger) forget(vm string) {
	if old := l.vms[vm]; old != nil {
		l.unload(old)
		l.wait(old, waiting{})
		delete(l.vms, vm)
	}

	delete(l.kicked, vm)
}

// unload takes a VM off its host and off its claim.
func (l *ledger) unload(e *entry) {
	if e.host != "" {
		l.of(e.host).remove(e)
		l.dirty[e.host] = struct{}{}
	}

	if e.claim != "" {
		l.of(e.claim).reserve(e.need, -1)
		l.dirty[e.claim] = struct{}{}
	}
}

// wait notes whether a VM waits. One that goes on waiting keeps its place.
func (l *ledger) wait(e *entry, w waiting) {
	was := e.is
	e.waiting = w

	if was == w.is {
		return
	}

	step := 1

	if w.is {
		l.tickets++
		e.ticket = l.tickets
		l.queue = append(l.queue, waiter{e.vm, e.ticket})
	} else {
		step = -1
	}

	l.waiters += step

	if len(e.rules.Together) > 0 {
		l.seekers += step
	}

	// Those that stopped waiting are cleared away when they are the larger half: a constant cost for each.
	if len(l.queue) > 64 && len(l.queue) > 2*l.waiters {
		l.queue = slices.DeleteFunc(l.queue, func(w waiter) bool { return !l.waits(w) })
	}
}

func (l *ledger) waits(w waiter) bool {
	e := l.vms[w.vm]

	return e != nil && e.is && e.ticket == w.ticket
}

func (l *ledger) of(host string) *load {
	if l.loads[host] == nil {
		l.loads[host] = newLoad()
	}

	return l.loads[host]
}
