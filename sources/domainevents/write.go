package domainevents

import (
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/sources/intake"
)

// reconcile makes the listeners those of the declared hosts.
func (x *run) reconcile(ctx context.Context) error {
	list, err := safe.ReaderListAll[*resources.Host](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing hosts: %w", err)
	}

	x.mu.Lock()
	defer x.mu.Unlock()

	declared := map[string]bool{}

	// A host in teardown is listened to until it is gone: its domains are being stopped.
	for host := range list.All() {
		name := host.Metadata().ID()
		declared[name] = true

		if l := x.hosts[name]; l != nil {
			l.poke()

			continue
		}

		x.hosts[name] = x.listen(ctx, name)
	}

	for name, l := range x.hosts {
		if !declared[name] {
			l.cancel()
			delete(x.hosts, name)
		}
	}

	return nil
}

// listen starts the listener of a host.
func (x *run) listen(ctx context.Context, host string) *listener {
	ctx, cancel := context.WithCancel(ctx)

	l := &listener{
		host: host, gateway: x.GatewayID, pool: x.Pool, logger: x.logger, metrics: x.Metrics, out: x.notes, cancel: cancel,
		connection: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		pending: map[string]hypervisor.Event{}, domains: map[string]known{},
	}

	x.running.Go(func() { l.run(ctx) })

	return l
}

// idOf is the id of a domain's event.
func idOf(host, uuid, vm string) string {
	if vm != "" {
		return vm
	}

	return host + "." + uuid
}

// take writes what a listener tells.
func (x *run) take(ctx context.Context, n note) error {
	if n.census != nil {
		return x.dropMissing(ctx, n.host, n.census)
	}

	if err := x.pace.Before(ctx); err != nil {
		return err
	}

	id := idOf(n.host, n.uuid, n.vm)

	if n.vm == "" && n.kind == hypervisor.EventUndefined {
		x.expiring[id] = false
	} else {
		delete(x.expiring, id)
	}

	var event resources.EventAttributes

	err := safe.WriterModify(ctx, x.r, resources.NewDomainEvent(id), func(res *resources.DomainEvent) error {
		spec := res.TypedSpec()
		*spec = resources.DomainEventSpec{
			Event: x.attributes(id, n, spec.Event.Sequence+1), Host: n.host, Domain: n.domain, DomainUUID: n.uuid,
			VM: n.vm, Kind: string(n.kind), Detail: n.detail, Epoch: x.epoch,
		}
		event = spec.Event.Clone()

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the event of domain %q on host %q: %w", n.domain, n.host, err)
	}

	x.Metrics.Received(resources.SourceDomain)
	x.Metrics.Pending(resources.SourceDomain, len(x.notes))

	if n.kind == kindRelisted { // nothing happened
		return nil
	}

	if !x.journaling.Allow() {
		x.suppressed++

		return nil
	}

	object := ""
	if n.vm != "" {
		object = "VM/" + n.vm
	}

	return intake.Record(x.Journal, &event, object, string(n.kind)+" on "+n.host)
}

func (x *run) attributes(id string, n note, sequence uint64) resources.EventAttributes {
	a := resources.EventAttributes{
		ID:     resources.EventID(resources.SourceDomain, id, n.host, string(n.kind), n.time.UTC().Format(time.RFC3339Nano), fmt.Sprint(sequence)),
		Source: resources.SourceDomain, Name: id, Type: "gateway.domain." + string(n.kind) + ".v1", Subject: "domain/" + id,
		Time: n.time, Received: time.Now(), Sequence: sequence,
	}

	if n.vm != "" {
		a.Subject = "vm/" + n.vm
		a.Target = &resources.Target{Kind: "VM", Name: n.vm}
	}

	return a
}

// dropMissing drops the events of foreign domains that a host has no more.
func (x *run) dropMissing(ctx context.Context, host string, census map[string]bool) error {
	return x.dropIf(ctx, func(spec *resources.DomainEventSpec, _ string) (bool, error) {
		return spec.VM == "" && spec.Host == host && !census[spec.DomainUUID], nil
	})
}

// sweep drops the events of VMs, hosts and foreign domains that are no more.
func (x *run) sweep(ctx context.Context) error {
	if x.suppressed > 0 {
		x.logger.Warn("domain events were left out of the journal", zap.Int("count", x.suppressed), zap.Int("limit_per_second", journalRate))
		x.suppressed = 0
	}

	err := x.dropIf(ctx, func(spec *resources.DomainEventSpec, id string) (bool, error) {
		if spec.VM == "" {
			return x.expiring[id] || !x.isDeclared(spec.Host), nil
		}

		_, err := x.r.GetUncached(ctx, resources.NewVMConfig(spec.VM).Metadata())
		if err != nil && !state.IsNotFoundError(err) {
			return false, fmt.Errorf("error reading VM %q: %w", spec.VM, err)
		}

		return err != nil, nil
	})
	if err != nil {
		return err
	}

	for id, seen := range x.expiring {
		if seen {
			delete(x.expiring, id)
		} else {
			x.expiring[id] = true
		}
	}

	return nil
}

func (x *run) isDeclared(host string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()

	return x.hosts[host] != nil
}

// dropIf drops the chosen events, and those that are in teardown already.
func (x *run) dropIf(ctx context.Context, chosen func(spec *resources.DomainEventSpec, id string) (bool, error)) error {
	list, err := safe.ReaderListAll[*resources.DomainEvent](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing domain events: %w", err)
	}

	for event := range list.All() {
		drop, err := chosen(event.TypedSpec(), event.Metadata().ID())
		if err != nil {
			return err
		}

		if !drop && event.Metadata().Phase() == resource.PhaseRunning {
			continue
		}

		if _, err := intake.Drop(ctx, x.r, event.Metadata()); err != nil {
			return err
		}
	}

	return nil
}
