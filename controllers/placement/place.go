package placement

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// place finds a host for a VM that is nowhere. The caller holds the lock; it is given up while hosts are asked.
func (p *pass) place(ctx context.Context) error {
	l := p.ledger()

	// The event of a host that was declared before the VM may come after the VM's.
	if !l.listed.After(p.vm.Metadata().Created()) {
		if err := l.list(ctx, p.r); err != nil {
			return err
		}
	}

	p.ask(ctx)

	// Each turn but the last finds that a host is not what it was: there are as many turns as hosts, and one.
	for range len(l.order) + 1 {
		found, silent := l.where(p.c.options.GatewayID, p.id, p.adopts())
		former := ""

		switch {
		case found != "":
			former = p.former
		case silent != "":
			return p.block(ctx, silent)
		case p.theirs() != "":
			// Placed elsewhere the VM would be there twice, should that domain be ours of a data directory that was lost.
			found = p.theirs()
		default:
			c := l.choose(&p.request, "")
			if c.host == "" {
				return p.refuse(ctx, c)
			}

			if wait := p.settling(); wait > 0 {
				return p.unsettled(ctx, wait)
			}

			found = p.prefer(c.host)
		}

		if done, err := p.put(ctx, found, former); err != nil || done {
			return err
		}
	}

	return controller.NewRequeueInterval(askAgain)
}

// adopts returns the UUID of the domain that the VM takes over on a host where it may be; empty: none.
func (p *pass) adopts() string {
	a := p.vm.TypedSpec().Adopt
	if a == nil {
		return ""
	}

	l := p.ledger()
	for _, index := range []map[string]string{l.asked.bare, l.asked.theirs} {
		if name, ok := index[a.UUID]; ok && p.mayBeOn(name) {
			return a.UUID
		}
	}

	return ""
}

// theirs returns the host on which the VM may be that has a domain of this VM with the mark of another gateway; empty: none has.
// Of several the first by name that takes the VM is taken, else the first of all: it is the same whoever answered first.
func (p *pass) theirs() (host string) {
	l := p.ledger()

	for _, name := range resources.SortedKeys(l.asked.marked[p.id]) {
		if !p.mayBeOn(name) {
			continue
		}

		if l.judge(name, &p.request, resources.Capacity{}).obstacle == fits {
			return name
		}

		host = cmp.Or(host, name)
	}

	return host
}

// mayBeOn reports whether pin and selector let the VM be on a host.
func (p *pass) mayBeOn(name string) bool {
	h := p.ledger().hosts[name]

	return h != nil && h.declared && (p.rules.Host == "" || p.rules.Host == name) && matches(p.rules.Selector, h.labels)
}

// ask asks the hosts that have not answered in their present connection, all at the same time. What they say is in the ledger
// afterwards; who does not answer in time is silent. Only those are waited for without whose answer the VM can't be placed.
func (p *pass) ask(ctx context.Context) {
	l := p.ledger()

	open := l.questions()
	if len(open) == 0 {
		return
	}

	needed := map[string]bool{}
	for _, q := range open {
		needed[q.host] = l.silent(l.hosts[q.host], p.id)
	}

	l.mu.Unlock()
	defer l.mu.Lock()

	flights := map[string]*chain.Flight{}

	for _, q := range open {
		flight := p.c.flights.Begin(q.host, func(ctx context.Context) error { return p.c.ask(ctx, q) })
		if needed[q.host] {
			flights[q.host] = flight
		}
	}

	for host, f := range flights {
		if err := f.Wait(ctx); err != nil {
			p.logger.Debug("host did not say which domains it has", zap.String("host", host), zap.Error(err))
		}
	}
}

// prefer returns the host that a VM on its way has claimed, or was on before a restore, if it is still good, and otherwise the chosen one.
func (p *pass) prefer(chosen string) string {
	claim := p.former
	if e := p.ledger().vms[p.id]; e != nil && e.claim != "" {
		claim = e.claim
	}

	if claim == "" || p.rules.Host != "" && p.rules.Host != claim {
		return chosen
	}

	if p.ledger().judge(claim, &p.request, resources.Capacity{}).obstacle != fits {
		return chosen
	}

	return claim
}

// put places the VM on a host; former is where it was before a restore, if it was found elsewhere. done is false when the host is not what the ledger knew of it.
func (p *pass) put(ctx context.Context, name, former string) (done bool, err error) {
	l := p.ledger()

	if changed, err := l.refresh(ctx, p.r, name); err != nil || changed {
		return false, err
	}

	ok, err := chain.Hold[*resources.Host](ctx, p.r, hostPointer(name), finalizer)
	if err != nil {
		return false, err
	}

	if !ok {
		return true, p.leaving(ctx, name)
	}

	if former == name {
		former = ""
	}

	if err := p.write(ctx, resources.VMPlacementSpec{
		Host: name, Reason: resources.ReasonPlaced, Reserved: p.need, Revision: p.revision(), Former: former,
	}); err != nil {
		return false, err
	}

	l.set(entry{request: p.request, host: name, reserved: p.need})
	delete(l.asked.found, p.id)

	p.logger.Info("placed", zap.String("vm", p.id), zap.String("host", name), zap.String("cause", p.cause()))

	return true, nil
}

// leaving leaves the VM unplaced while a host goes that has its domain, or was chosen in this moment: its event wakes the VM.
func (p *pass) leaving(ctx context.Context, name string) error {
	return p.nowhere(ctx, resources.VMPlacementSpec{
		Revision: p.revision(), Reason: resources.ReasonUnschedulable, Message: fmt.Sprintf("host %s is just being removed", name),
	}, name)
}

// block leaves the VM unplaced until a host was asked.
func (p *pass) block(ctx context.Context, name string) error {
	var (
		h    = p.ledger().hosts[name]
		spec = resources.VMPlacementSpec{Revision: p.revision()}
	)

	switch {
	case h.connected || h.generation == 0 && !h.failed:
		spec.Reason, spec.Message = resources.ReasonPending, fmt.Sprintf("host %s has not said yet whether it has the VM's domain", name)
	default:
		spec.Reason, spec.Message = resources.ReasonHostUnreachable, fmt.Sprintf("host %s has to be asked first whether it has the VM's domain, and is not connected", name)
	}

	if err := p.nowhere(ctx, spec, name); err != nil {
		return err
	}

	if h.connected {
		return controller.NewRequeueInterval(askAgain)
	}

	return nil
}

// refuse leaves the VM unplaced, with the reasons of all hosts.
func (p *pass) refuse(ctx context.Context, c choice) error {
	spec := c.explain(&p.request)
	spec.Revision = p.revision()

	return p.nowhere(ctx, spec, "")
}

// nowhere writes why the VM is nowhere, and has it wait. What it claimed is given up: there is no room there either.
func (p *pass) nowhere(ctx context.Context, spec resources.VMPlacementSpec, blocked string) error {
	if err := p.write(ctx, spec); err != nil {
		return err
	}

	// Where it was before a restore stays reserved: nobody knows yet whether it is still there.
	p.ledger().set(entry{request: p.request, claim: p.former, waiting: waiting{is: true, blocked: blocked}})

	return nil
}
