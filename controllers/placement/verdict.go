package placement

import (
	"fmt"

	"gateway/resources"
)

// obstacle is what keeps a VM from a host.
type obstacle int

const (
	fits obstacle = iota
	missing
	unreachable
	removed
	unschedulable
	draining
	unselected
	shortCPUs
	shortMemory
	shortDisk
	tooClose
	alone
	unshared
)

// verdict is whether a host takes a VM. It is made for every host and every VM, so its text is made only when it is shown.
type verdict struct {
	obstacle obstacle
	// free and total are of the resource that is short.
	free, total int64
	// other is the VM that is in the way, or the file that is missing.
	other string
}

// text says what the obstacle is.
func (v verdict) text(q *request) string {
	size := func(need resources.Size, what string) string {
		return fmt.Sprintf("%s of %s %s free, %s needed", resources.Size(v.free), resources.Size(v.total), what, need)
	}

	switch v.obstacle {
	case fits:
		return "fits"
	case missing:
		return "there is no such host"
	case unreachable:
		return "is not connected"
	case removed:
		return "is being removed"
	case unschedulable:
		return "is not schedulable"
	case draining:
		return "is being drained"
	case unselected:
		return "does not have the labels " + text(q.rules.Selector)
	case shortCPUs:
		return fmt.Sprintf("%d of %d CPUs free, %d needed", v.free, v.total, q.need.CPUs)
	case shortMemory:
		return size(q.need.Memory, "memory")
	case shortDisk:
		return size(q.need.Disk, "disk")
	case tooClose:
		return "has VM " + v.other + ", which it must be apart from"
	case unshared:
		return "does not have " + v.other + ", which is in a directory that other hosts share"
	case alone:
		return "has no VM with the labels " + text(q.rules.Together)
	default:
		return "is refused"
	}
}

// judge reports whether a host takes a VM newly. What the VM itself takes there is not counted against it; taken is
// what others will take that is not in the ledger yet.
func (l *ledger) judge(name string, q *request, taken resources.Capacity) verdict {
	h := l.hosts[name]

	switch {
	case h == nil:
		return verdict{obstacle: missing}
	case !h.declared:
		return verdict{obstacle: removed}
	case !h.schedulable:
		return verdict{obstacle: unschedulable}
	case h.drain:
		return verdict{obstacle: draining}
	case !matches(q.rules.Selector, h.labels):
		return verdict{obstacle: unselected}
	case !h.connected:
		return verdict{obstacle: unreachable}
	}

	for _, file := range q.files {
		if !h.shares(file) && l.isShared(file) {
			return verdict{obstacle: unshared, other: file}
		}
	}

	if v := l.room(name, q, q.need, taken); v.obstacle != fits {
		return v
	}

	on := l.of(name)

	if other := l.close(on, q); other != "" {
		return verdict{obstacle: tooClose, other: other}
	}

	if len(q.rules.Together) > 0 && l.with(on, q.rules.Together, q.vm) == "" && !l.founds(q) {
		return verdict{obstacle: alone}
	}

	return verdict{}
}

// isShared reports whether a file is in a directory that any host shares.
func (l *ledger) isShared(file string) bool {
	for _, h := range l.hosts {
		if h.shares(file) {
			return true
		}
	}

	return false
}

// room reports whether a host has the capacity for grow, which is what of q.need is to be checked.
func (l *ledger) room(name string, q *request, grow, taken resources.Capacity) verdict {
	h := l.hosts[name]
	if h == nil {
		return verdict{obstacle: missing}
	}

	used := l.of(name).used
	own := l.vms[q.vm]

	if own != nil && own.host == name {
		used = minus(used, own.reserved)
	}

	if own != nil && own.claim == name {
		used = minus(used, own.need)
	}

	short := func(o obstacle, total, used, taken, need, grow int64) verdict {
		if total == 0 || grow == 0 || used+taken+need <= total {
			return verdict{}
		}

		return verdict{obstacle: o, free: max(0, total-used-taken), total: total}
	}

	if v := short(shortCPUs, int64(h.capacity.CPUs), int64(used.CPUs), int64(taken.CPUs), int64(q.need.CPUs), int64(grow.CPUs)); v.obstacle != fits {
		return v
	}

	if v := short(shortMemory, int64(h.capacity.Memory), int64(used.Memory), int64(taken.Memory), int64(q.need.Memory), int64(grow.Memory)); v.obstacle != fits {
		return v
	}

	return short(shortDisk, int64(h.capacity.Disk), int64(used.Disk), int64(taken.Disk), int64(q.need.Disk), int64(grow.Disk))
}

// close returns a VM on the host that q must be apart from, or that must be apart from q.
func (l *ledger) close(on *load, q *request) string {
	if len(q.rules.Apart) > 0 {
		if other := l.with(on, q.rules.Apart, q.vm); other != "" {
			return other
		}
	}

	for k, v := range q.labels {
		for other := range on.aparts[pair{k, v}] {
			if other != q.vm && matches(l.vms[other].rules.Apart, q.labels) {
				return other
			}
		}
	}

	return ""
}

// with returns a VM on the host, other than self, that has all labels of set.
func (l *ledger) with(on *load, set map[string]string, self string) string {
	var (
		fewest names
		first  = true
	)

	for k, v := range set {
		if have := on.labels[pair{k, v}]; first || len(have) < len(fewest) {
			fewest, first = have, false
		}
	}

	best := ""

	for vm := range fewest {
		if vm != self && matches(set, l.vms[vm].labels) {
			if len(set) == 1 && len(fewest) > 16 {
				return vm // any will do, and looking for the first by name would be a scan
			}

			if best == "" || vm < best {
				best = vm
			}
		}
	}

	return best
}

// founds reports whether q may be the first of its group: it has the labels itself that it must be together with, and
// nobody else has them anywhere.
func (l *ledger) founds(q *request) bool {
	if !matches(q.rules.Together, q.labels) {
		return false
	}

	for _, on := range l.loads {
		if l.with(on, q.rules.Together, q.vm) != "" {
			return false
		}
	}

	return true
}

func minus(a, b resources.Capacity) resources.Capacity {
	return resources.Capacity{CPUs: a.CPUs - b.CPUs, Memory: a.Memory - b.Memory, Disk: a.Disk - b.Disk}
}

func plus(a, b resources.Capacity) resources.Capacity {
	return resources.Capacity{CPUs: a.CPUs + b.CPUs, Memory: a.Memory + b.Memory, Disk: a.Disk + b.Disk}
}
