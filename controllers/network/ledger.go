package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/internal/overrides"
	"gateway/resources"
)

// holder is what the ledger has of one VM.
type holder struct {
	vm, host string
	// interfaces and retiring are those of the NetworkConfig.
	interfaces, retiring []resources.NetworkBinding
	// released are those of retiring that the domain has let go of: the host may not have them any more.
	released []resources.NetworkBinding
	ready    bool
	// leaving reports that its entries are being taken off the host. Its addresses are its own until that is done.
	leaving bool
	// declares are the addresses that the document asks for, by network.
	declares []claim
	waits    wait
}

// claim is an address of a network.
type claim struct {
	network string
	address netip.Addr
}

// wait is what a VM waits for: a MAC, something of a network, or a host.
type wait struct {
	mac, network, address, host string
	// need is how many addresses of the network it lacks, where any will do.
	need int
}

func (h *holder) bindings() []resources.NetworkBinding {
	return slices.Concat(h.interfaces, h.retiring)
}

// held are the bindings that the VM still needs on its host.
func (h *holder) held() []resources.NetworkBinding {
	return slices.DeleteFunc(h.bindings(), func(b resources.NetworkBinding) bool { return slices.Contains(h.released, b) })
}

// ledger is the index of everything that is allocated. Allocations are made, and NetworkConfigs written, under its lock;
// hypervisors are called without.
type ledger struct {
	mu sync.Mutex // guards the following

	loaded   bool
	vms      map[string]*holder
	macs     map[string]string
	networks map[string]*network
	segments map[string]map[string]*segment // by host and network
	// last has the bindings of VMs that are on their way from one host to another, so that they get them back.
	last map[string][]resources.NetworkBinding
	// hosts and macWaiters are the VMs that wait for a host, or for a MAC.
	hosts      map[string]names
	macWaiters map[string]names
	freedMACs  names
	// freed are networks on which something became free since their waiters were looked at; unreported, those whose
	// NetworkStatus may not be what it should be.
	freed, unreported map[string]*network
	// generations has the last connection of a host that was heard of.
	generations map[string]int64
	// inspected are the hosts whose entries were looked at; found has what they had, by network.
	inspected names
	found     map[string]*found
	// kicked are VMs that have to look again; forced, those that do so because somebody asked: what they have is verified.
	kicked, forced names
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.loaded = false
}

// load rebuilds the index from the state, once.
func (l *ledger) load(ctx context.Context, r controller.QRuntime) error {
	if l.loaded {
		return nil
	}

	l.vms, l.macs, l.networks = map[string]*holder{}, map[string]string{}, map[string]*network{}
	l.segments, l.last = map[string]map[string]*segment{}, map[string][]resources.NetworkBinding{}
	l.hosts, l.macWaiters, l.freedMACs = map[string]names{}, map[string]names{}, names{}
	l.generations, l.kicked, l.forced = map[string]int64{}, names{}, names{}

	l.inspected, l.found = names{}, map[string]*found{}
	l.freed, l.unreported = map[string]*network{}, map[string]*network{}

	networks, err := r.ListUncached(ctx, resources.NewNetwork("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the networks: %w", err)
	}

	for _, item := range networks.Items {
		if _, err := l.refresh(ctx, r, item.Metadata().ID()); err != nil {
			return err
		}
	}

	configs, err := r.ListUncached(ctx, resources.NewNetworkConfig("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the network configurations: %w", err)
	}

	for _, item := range configs.Items {
		if config, ok := item.(*resources.NetworkConfig); ok {
			l.set(holderOf(config))
		}
	}

	vms, err := r.ListUncached(ctx, resources.NewVMConfig("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the VMs: %w", err)
	}

	over, err := overrides.All(ctx, r.ListUncached)
	if err != nil {
		return err
	}

	for _, item := range vms.Items {
		if vm, ok := item.(*resources.VMConfig); ok {
			l.declare(overrides.Effective(vm, over[vm.Metadata().ID()]))
		}
	}

	l.loaded, l.kicked = true, names{}

	return nil
}

// holderOf is the entry that a NetworkConfig stands for.
func holderOf(config *resources.NetworkConfig) holder {
	spec := config.TypedSpec()

	return holder{
		vm: config.Metadata().ID(), host: spec.Host, interfaces: spec.Interfaces, retiring: spec.Retiring, ready: spec.Ready,
	}
}

func (l *ledger) network(name string) *network {
	if l.networks[name] == nil {
		l.networks[name] = newNetwork(name, l.foundOf(name))
		l.unreported[name] = l.networks[name]
	}

	return l.networks[name]
}

// declare notes the addresses that a VM's document asks for.
func (l *ledger) declare(vm *resources.VMConfig) {
	h := l.vms[vm.Metadata().ID()]
	if h == nil {
		h = &holder{vm: vm.Metadata().ID()}
		l.vms[h.vm] = h
	}

	var now []claim

	for _, i := range vm.TypedSpec().Interfaces {
		if a, err := netip.ParseAddr(i.Address); err == nil {
			now = append(now, claim{i.Network, a})
		}
	}

	if slices.Equal(h.declares, now) {
		return
	}

	l.undeclare(h)

	for _, c := range now {
		add(l.network(c.network).declared, c.address, h.vm)
	}

	h.declares = now
}

func (l *ledger) undeclare(h *holder) {
	for _, c := range h.declares {
		n := l.network(c.network)
		remove(n.declared, c.address, h.vm)
		l.freed[n.name] = n
	}

	h.declares = nil
}

// set replaces what is known of a VM, but for what its document declares.
func (l *ledger) set(next holder) {
	old := l.vms[next.vm]
	if old == nil {
		old = &holder{vm: next.vm}
	}

	next.declares = old.declares

	if !sameBindings(old, &next) {
		l.leave(old)
		l.join(&next)
		l.tidy(old)
	}

	l.countReady(old, -1)
	l.countReady(&next, 1)
	l.unwait(old)
	l.vms[next.vm] = &next
	l.await(&next)
}

func sameBindings(a, b *holder) bool {
	return a.host == b.host && a.leaving == b.leaving &&
		slices.Equal(a.interfaces, b.interfaces) && slices.Equal(a.retiring, b.retiring) && slices.Equal(a.released, b.released)
}

// forget removes a VM and frees what it had.
func (l *ledger) forget(vm string) {
	h := l.vms[vm]
	if h == nil {
		return
	}

	l.leave(h)
	l.tidy(h)
	l.countReady(h, -1)
	l.unwait(h)
	l.undeclare(h)
	delete(l.vms, vm)
	delete(l.last, vm)
	delete(l.kicked, vm)
	delete(l.forced, vm)
}

// join takes what a VM has, and puts it on its segments.
func (l *ledger) join(h *holder) {
	for _, b := range h.bindings() {
		n := l.network(b.Network)
		n.users[h.vm] = struct{}{}
		n.take(b.Address, h.vm)
		l.macs[b.MAC] = h.vm
		delete(l.freedMACs, b.MAC)

		if b.LibvirtNetwork == "" {
			continue
		}

		s := l.segment(h.host, b.Network)
		s.made = s.made || b.Ours
		s.version++

		if !h.leaving && !slices.Contains(h.released, b) {
			s.members[h.vm] = struct{}{}
		}
	}
}

// leave is the opposite of join.
func (l *ledger) leave(h *holder) {
	for _, b := range h.bindings() {
		n := l.network(b.Network)
		delete(n.users, h.vm)
		n.release(b.Address, h.vm)
		l.freed[n.name] = n

		if l.macs[b.MAC] == h.vm {
			delete(l.macs, b.MAC)
			l.freedMACs[b.MAC] = struct{}{}
		}

		if b.LibvirtNetwork == "" {
			continue
		}

		s := l.segment(h.host, b.Network)
		delete(s.members, h.vm)

		if !h.leaving {
			s.version++
		}
	}
}

// tidy forgets the segments of a VM on which nothing is left.
func (l *ledger) tidy(h *holder) {
	for _, b := range h.bindings() {
		if s := l.segments[h.host][b.Network]; s != nil && len(s.members) == 0 && !s.made {
			delete(l.segments[h.host], b.Network)
			delete(l.network(b.Network).failures, h.host)
		}
	}

	if len(l.segments[h.host]) == 0 {
		delete(l.segments, h.host)
	}
}

// countReady keeps the hosts that have a network.
func (l *ledger) countReady(h *holder, step int) {
	if !h.ready {
		return
	}

	for _, b := range h.interfaces {
		n := l.network(b.Network)
		before := n.ready[h.host]
		n.ready[h.host] += step

		if n.ready[h.host] <= 0 {
			delete(n.ready, h.host)
		}

		if (before == 0) != (n.ready[h.host] == 0) {
			l.unreported[n.name] = n
		}
	}
}

// await and unwait keep the indexes of who waits.
func (l *ledger) await(h *holder) {
	if h.waits.host != "" {
		add(l.hosts, h.waits.host, h.vm)
	}

	if h.waits.mac != "" {
		add(l.macWaiters, h.waits.mac, h.vm)
	}

	if h.waits.network != "" {
		l.network(h.waits.network).waiters[h.vm] = struct{}{}
	}
}

func (l *ledger) unwait(h *holder) {
	remove(l.hosts, h.waits.host, h.vm)
	remove(l.macWaiters, h.waits.mac, h.vm)

	if h.waits.network != "" {
		delete(l.network(h.waits.network).waiters, h.vm)
	}
}

func add[K comparable](index map[K]names, key K, name string) {
	if index[key] == nil {
		index[key] = names{}
	}

	index[key][name] = struct{}{}
}

func remove[K comparable](index map[K]names, key K, name string) {
	delete(index[key], name)

	if len(index[key]) == 0 {
		delete(index, key)
	}
}
