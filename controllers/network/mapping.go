package network

import (
	"context"
	"maps"
	"net/netip"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// maxBatch is how many VMs one event wakes at most, so that COSI's queue stays below the 10,000 above which it is slow.
// What is left over is woken by the next event.
const maxBatch = 4096

// MapInput implements controller.QController.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, md controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	switch md.Type() {
	case resources.VMPlacementType, resources.OverrideType:
		return []resource.Pointer{chain.VM(md.ID())}, nil
	case resources.DomainEventType:
		return mapDomain(ctx, r, md)
	}

	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	var (
		woken []resource.Pointer
		err   error
	)

	switch md.Type() {
	case resources.NetworkType:
		err = c.mapNetwork(ctx, r, md.ID())
	case resources.HostType:
		err = c.mapHost(ctx, r, md.ID())
	case resources.HostStatusType:
		err = c.mapHostStatus(ctx, r, md.ID())
	case resources.NetworkConfigType:
		// All else that happens to it is this controller's own doing.
		if md.Phase() == resource.PhaseTearingDown && md.FinalizersEmpty() {
			woken = append(woken, chain.VM(md.ID()))
		}
	default:
		woken, err = c.mapRequest(ctx, r, md)
	}

	return append(woken, l.wake()...), err
}

// mapRequest leads to the VMs that an event or a resync names. Who was asked for is verified on its host.
func (c *Controller) mapRequest(ctx context.Context, r controller.QRuntime, md resource.Pointer) (vms []resource.Pointer, err error) {
	var (
		cause    string
		targeted = true
	)

	if md.Type() == resources.ResyncType {
		vms, cause, targeted, err = chain.MapResync(ctx, r, md, maps.Keys(c.ledger.vms))
	} else {
		vms, cause, err = chain.MapEvent(ctx, r, md)
	}

	for _, vm := range vms {
		c.causes.Note(vm.ID(), cause)

		if targeted {
			c.ledger.forced[vm.ID()] = struct{}{}
		}
	}

	return vms, err
}

func mapDomain(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) ([]resource.Pointer, error) {
	event, err := chain.Get[*resources.DomainEvent](ctx, r, ptr)
	if err != nil || event == nil || event.TypedSpec().VM == "" {
		return nil, err
	}

	return []resource.Pointer{chain.VM(event.TypedSpec().VM)}, nil
}

func (c *Controller) mapNetwork(ctx context.Context, r controller.QRuntime, name string) error {
	if _, err := c.ledger.refresh(ctx, r, name); err != nil {
		return err
	}

	// Its finalizers are among what changes of a Network.
	if err := c.releaseNetwork(ctx, r, name); err != nil {
		return err
	}

	return c.report(ctx, r)
}

// mapHost wakes those that wait for a host, and forgets what was on one that is no more.
func (c *Controller) mapHost(ctx context.Context, r controller.QRuntime, name string) error {
	l := &c.ledger
	l.kick(l.hosts[name])

	host, err := chain.Get[*resources.Host](ctx, r, resources.NewHost(name).Metadata())
	if err != nil {
		return err
	}

	if host != nil && !resources.IsAbandoned(host.Metadata()) {
		return nil
	}

	for _, s := range l.segments[name] {
		l.kick(s.members)

		if host == nil && len(s.members) == 0 {
			l.drop(s)
		}
	}

	return c.report(ctx, r)
}

// drop forgets a segment.
func (l *ledger) drop(s *segment) {
	n := l.network(s.network)
	delete(n.failures, s.host)
	delete(l.segments[s.host], s.network)

	if len(l.segments[s.host]) == 0 {
		delete(l.segments, s.host)
	}

	l.unreported[n.name] = n
}

// mapHostStatus wakes, after a new connection, those that wait for the host, and one VM of each segment: the host may
// have lost its networks.
func (c *Controller) mapHostStatus(ctx context.Context, r controller.QRuntime, name string) error {
	l := &c.ledger

	status, err := chain.Get[*resources.HostStatus](ctx, r, resources.NewHostStatus(name).Metadata())
	if err != nil {
		return err
	}

	if status == nil || !status.TypedSpec().Connected {
		delete(l.generations, name) // the next connection is news, whatever its number

		return nil
	}

	if l.generations[name] == status.TypedSpec().Generation {
		return nil
	}

	l.generations[name] = status.TypedSpec().Generation
	l.kick(l.hosts[name])

	for _, s := range l.segments[name] {
		l.kickOne(s.members)
	}

	return nil
}

func (l *ledger) kick(vms names) {
	maps.Copy(l.kicked, vms)
}

func (l *ledger) kickOne(vms names) {
	for vm := range vms {
		l.kicked[vm] = struct{}{}

		return
	}
}

// wake returns the VMs that have to look again: those that were kicked, and those for whom something became free.
func (l *ledger) wake() []resource.Pointer {
	for mac := range l.freedMACs {
		if _, taken := l.macs[mac]; !taken {
			l.kick(l.macWaiters[mac])
		}
	}

	clear(l.freedMACs)

	for name, n := range l.freed {
		if l.wakeWaiters(n) {
			delete(l.freed, name)
		}
	}

	var woken []resource.Pointer

	for vm := range l.kicked {
		if len(woken) == maxBatch {
			break
		}

		woken = append(woken, chain.VM(vm))
		delete(l.kicked, vm)
	}

	return woken
}

// wakeWaiters wakes those who wait for an address that is free now, and of those who wait for any as many as there are.
// done is false when some were left out for the sake of others: who is woken may end without an address for another
// reason, and the event of that leads here again.
func (l *ledger) wakeWaiters(n *network) (done bool) {
	if len(n.waiters) == 0 {
		return true
	}

	spare := n.spare()
	left := spare
	done = true

	for vm := range n.waiters {
		w := l.vms[vm].waits

		switch a, err := netip.ParseAddr(w.address); {
		case w.need > left:
			done = done && w.need > spare
		case w.need > 0:
			left -= w.need
			l.kicked[vm] = struct{}{}
		case err != nil:
			l.kicked[vm] = struct{}{}
		default:
			if _, taken := n.addresses[a]; !taken {
				l.kicked[vm] = struct{}{}
			}
		}
	}

	return done
}
