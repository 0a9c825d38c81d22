package network

import (
	"context"
	"net/netip"
	"reflect"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// names is a set of VMs, or of networks.
type names map[string]struct{}

// document is a Network as it was read last.
type document struct {
	spec resources.NetworkSpec
	// running reports whether it is not being taken away.
	running  bool
	revision int64
}

// managed reports whether the gateway makes networks of this mode, and so gives out their addresses.
func managed(mode string) bool {
	return mode == resources.NetworkNAT || mode == resources.NetworkIsolated
}

// network is what is known of one network over all hosts. The ledger's lock guards it.
type network struct {
	name string
	doc  *document // nil: there is none

	// addresses has the VM of each address that is taken; low is an address below which none is free.
	addresses map[netip.Addr]string
	low       netip.Addr
	// cooling are those that were taken a short while ago.
	cooling cooling
	// found is what hosts had of it when they were first looked at.
	found *found
	// declared has the VMs whose documents ask for an address.
	declared map[netip.Addr]names
	// users are the VMs with a binding on it, waiters those that have none yet and want one.
	users, waiters names
	// ready counts the VMs whose binding is on a host, by host; failures has what goes wrong, by host.
	ready    map[string]int
	failures map[string]problem
}

func newNetwork(name string, found *found) *network {
	return &network{
		name: name, found: found, addresses: map[netip.Addr]string{}, declared: map[netip.Addr]names{}, users: names{}, waiters: names{},
		ready: map[string]int{}, failures: map[string]problem{},
	}
}

func networkPointer(name string) resource.Pointer { return resources.NewNetwork(name).Metadata() }

// refresh reads the document of a network again. Whoever is the first to see a change kicks those whom it concerns; its
// event wakes them.
func (l *ledger) refresh(ctx context.Context, r controller.UncachedReader, name string) (*network, error) {
	n := l.network(name)

	declared, err := chain.Get[*resources.Network](ctx, r, networkPointer(name))
	if err != nil {
		return nil, err
	}

	var now *document
	if declared != nil {
		now = &document{spec: *declared.TypedSpec(), running: !resources.IsLeaving(declared.Metadata()), revision: resources.RevisionOf(declared.Metadata())}
	}

	if old := n.doc; !reflect.DeepEqual(old, now) {
		n.doc, n.low = now, netip.Addr{}
		l.freed[name], l.unreported[name] = n, n
		l.documentChanged(n, old)
	}

	return n, nil
}

// documentChanged kicks all VMs of a network when their addresses or the way in which they are on it may change, and
// otherwise one of each segment, which brings the change to the host for all.
func (l *ledger) documentChanged(n *network, old *document) {
	now := n.doc

	l.kick(n.waiters)

	if old == nil || now == nil || old.spec.Mode != now.spec.Mode || old.spec.Subnet != now.spec.Subnet || old.spec.Bridge != now.spec.Bridge ||
		old.spec.Network != now.spec.Network {
		l.kick(n.users)
	}

	if old != nil && now != nil && reflect.DeepEqual(old.spec, now.spec) {
		return
	}

	for _, on := range l.segments {
		if s := on[n.name]; s != nil {
			s.version++
			l.kickOne(s.members)
		}
	}
}

// usable reports whether a VM may have the address: it is in the subnet, and neither the host's nor the broadcast address.
func (d *document) usable(a netip.Addr) bool {
	prefix := d.spec.Prefix()

	return prefix.IsValid() && a.IsValid() && prefix.Contains(a) && a != prefix.Addr() && a != d.spec.Gateway() &&
		prefix.Contains(a.Next())
}

// contains reports whether an address is one of the subnet.
func (d *document) contains(address string) bool {
	a, err := netip.ParseAddr(address)

	return err == nil && d.usable(a)
}

// give returns an address that is free for an interface; the zero address when there is none. One that a host had an entry
// for, or may have a lease of, is given to another MAC only when no other is left.
func (n *network) give(vm, mac string, chosen map[netip.Addr]bool) netip.Addr {
	if a := n.found.entries[mac]; a.IsValid() && n.doc.usable(a) && !chosen[a] && n.wanted(a, vm) == "" {
		if _, taken := n.addresses[a]; !taken {
			return a
		}
	}

	n.cooling.expire(time.Now())

	promised := func(a netip.Addr) bool {
		_, found := n.found.promised[a]

		return found
	}

	for _, avoid := range []func(netip.Addr) bool{
		func(a netip.Addr) bool { return promised(a) || n.cooling.hot(a, vm) },
		promised,
		func(netip.Addr) bool { return false },
	} {
		if a := n.first(vm, chosen, avoid); a.IsValid() {
			return a
		}
	}

	return netip.Addr{}
}

// first returns the first address that is free for a VM and not to be avoided; the zero address when there is none.
func (n *network) first(vm string, chosen map[netip.Addr]bool, avoid func(netip.Addr) bool) netip.Addr {
	first, last := n.doc.spec.Bounds()
	if !first.IsValid() || !last.IsValid() {
		return netip.Addr{}
	}

	if n.low.IsValid() && first.Less(n.low) {
		first = n.low
	}

	// Everything below low is taken: each address is passed over once, not once for each VM.
	contiguous := true

	for a := first; a.IsValid() && !last.Less(a); a = a.Next() {
		_, taken := n.addresses[a]

		if taken && contiguous {
			n.low = a.Next()
		}

		contiguous = contiguous && taken

		if !taken && !avoid(a) && !chosen[a] && n.doc.usable(a) && n.wanted(a, vm) == "" {
			return a
		}
	}

	return netip.Addr{}
}

// wanted returns another VM whose document declares the address.
func (n *network) wanted(a netip.Addr, vm string) string {
	for other := range n.declared[a] {
		if other != vm {
			return other
		}
	}

	return ""
}

// spare returns how many addresses are free at most. It is a scan, made only while somebody waits for one.
func (n *network) spare() int {
	if n.doc == nil {
		return 0
	}

	first, last := n.doc.spec.Bounds()
	if !first.Is4() || !last.Is4() {
		return 0
	}

	free := number(last) - number(first) + 1

	for a := range n.addresses {
		if !a.Less(first) && !last.Less(a) {
			free--
		}
	}

	return max(0, free)
}

// number is an IPv4 address as a number.
func number(a netip.Addr) int {
	b := a.As4()

	return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
}

// take and release keep the addresses that are taken.
func (n *network) take(address, vm string) {
	if a, err := netip.ParseAddr(address); err == nil {
		n.addresses[a] = vm
		n.cooling.taken(a)
	}
}

func (n *network) release(address, vm string) {
	a, err := netip.ParseAddr(address)
	if err != nil || n.addresses[a] != vm {
		return
	}

	delete(n.addresses, a)
	n.cooling.add(a, vm, time.Now())

	if a.Less(n.low) {
		n.low = a
	}
}
