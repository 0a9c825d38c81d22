package placement

import (
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// maxBatch is how many VMs one event wakes at most: two such batches stay below the 10,000 above which COSI's queue
// becomes slow. What is left over is woken by the next event, of which each VM that is placed makes one.
const maxBatch = 4096

// wake returns the VMs that have to look again: those that were kicked, and those that wait and that a host which changed
// takes now. What a woken VM will take is counted, so that one freed place does not wake all who wait for one.
func (l *ledger) wake() []resource.Pointer {
	var woken []resource.Pointer

	for vm := range l.kicked {
		if len(woken) == maxBatch {
			return woken
		}

		woken = append(woken, chain.VM(vm))
		delete(l.kicked, vm)
	}

	if len(l.dirty) == 0 {
		return woken
	}

	if l.waiters == 0 {
		clear(l.dirty)

		return woken
	}

	for _, name := range resources.SortedKeys(l.dirty) {
		var full bool
		if woken, full = l.wakeFor(name, woken); full {
			return woken
		}
	}

	return woken
}

// wakeFor adds the VMs that a host takes now; full reports that the batch is. A host for which one was left out because of
// what others may take stays dirty: they may go elsewhere, and the events of their placements lead here again.
func (l *ledger) wakeFor(name string, woken []resource.Pointer) (_ []resource.Pointer, full bool) {
	var (
		taken   resources.Capacity
		leftOut bool
	)

	for _, w := range l.queue {
		if !l.waits(w) {
			continue
		}

		if len(woken) == maxBatch {
			return woken, true
		}

		switch e := l.vms[w.vm]; {
		case l.concerns(e, name, taken):
			woken = append(woken, chain.VM(w.vm))
			taken = plus(taken, e.need)
		case taken != resources.Capacity{} && !leftOut:
			leftOut = l.concerns(e, name, resources.Capacity{})
		}
	}

	if !leftOut {
		delete(l.dirty, name)
	}

	return woken, false
}

// concerns reports whether a change of a host may be what a waiting VM waits for.
func (l *ledger) concerns(e *entry, name string, taken resources.Capacity) bool {
	switch {
	case e.blocked == name:
		return true
	case e.host != "" && !e.leaving:
		return e.host == name && l.room(name, &e.request, growth(e.reserved, e.need), taken).obstacle == fits
	case e.host == name:
		return false // room is not what it lacks here
	case e.blocked != "":
		return false // no other host is the answer before that one has been asked
	case e.rules.Host != "" && e.rules.Host != name:
		return false
	default:
		return l.judge(name, &e.request, taken).obstacle == fits
	}
}

// kick wakes all VMs of a host, or only those that want to leave it.
func (l *ledger) kick(name string, leaving bool) {
	for vm := range l.of(name).vms {
		if !leaving || l.vms[vm].leaving {
			l.kicked[vm] = struct{}{}
		}
	}
}

// kickWaiters wakes all VMs that are nowhere.
func (l *ledger) kickWaiters() {
	for _, w := range l.queue {
		if l.waits(w) && l.vms[w.vm].host == "" {
			l.kicked[w.vm] = struct{}{}
		}
	}
}
