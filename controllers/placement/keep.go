package placement

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// keep looks at a VM that is placed: it moves it where it has to leave and can, and otherwise follows its size.
func (p *pass) keep(ctx context.Context, current *resources.VMPlacement) error {
	want := *current.TypedSpec()
	if p.unsized {
		p.need.Disk = max(p.need.Disk, want.Reserved.Disk) // what was known of an image once is more than nothing
	}

	var (
		l    = p.ledger()
		next = entry{request: p.request, host: want.Host, reserved: want.Reserved}
	)

	// What is in the state is the truth, should a write have failed half-way.
	l.set(l.withWaiting(next))

	if h := l.hosts[want.Host]; h != nil && h.abandoned {
		return p.giveUp(ctx, current)
	}

	want.Reason, want.Message, want.Hosts = resources.ReasonPlaced, "", nil

	why := p.mustLeave(want.Host)
	if why != "" {
		to, obstacle, final := p.canLeave(want.Host)
		if to != "" {
			return p.move(ctx, current, to, why)
		}

		want.Reason = resources.ReasonUnschedulable
		want.Message = fmt.Sprintf("stays on host %s, which %s: %s", want.Host, why, obstacle)
		next.waiting = waiting{is: !final, leaving: true}

		if h := l.hosts[want.Host]; h != nil && !h.connected {
			want.Reason = resources.ReasonHostUnreachable
		}
	}

	grow := growth(want.Reserved, p.need)
	if want.Revision == p.revision() && grow.Disk <= p.imaged {
		grow.Disk = 0 // the size of an image became known: its disk is so large whether there is room or not, and others go elsewhere
	}

	if v := l.room(want.Host, &p.request, grow, resources.Capacity{}); v.obstacle == fits || v.obstacle == missing {
		want.Reserved, want.Revision = p.need, p.revision()
	} else {
		want.Reason = resources.ReasonNotEnoughCapacity
		want.Message = fmt.Sprintf("host %s: %s; %d CPUs, %s memory and %s disk stay reserved",
			want.Host, v.text(&p.request), want.Reserved.CPUs, want.Reserved.Memory, want.Reserved.Disk)

		if !next.leaving {
			next.is = true
		}
	}

	if err := p.write(ctx, want); err != nil {
		return err
	}

	next.reserved = want.Reserved
	l.set(next)

	// The finalizer stands before the placement does; it is looked at again for the case that somebody took it off.
	_, err := chain.Hold[*resources.Host](ctx, p.r, hostPointer(want.Host), finalizer)

	return err
}

// withWaiting returns e with what the ledger knows of the VM's waiting.
func (l *ledger) withWaiting(e entry) entry {
	if known := l.vms[e.vm]; known != nil {
		e.waiting = known.waiting
	}

	return e
}

// growth is what of a need is more than what is reserved: only that has to fit, on a host that has become smaller too.
func growth(reserved, need resources.Capacity) resources.Capacity {
	return resources.Capacity{
		CPUs: max(0, need.CPUs-reserved.CPUs), Memory: max(0, need.Memory-reserved.Memory), Disk: max(0, need.Disk-reserved.Disk),
	}
}

// mustLeave says why the VM may not stay on its host; empty: it may. A host without a document keeps its VMs.
func (p *pass) mustLeave(name string) string {
	h := p.ledger().hosts[name]

	switch {
	case p.rules.Host != "" && p.rules.Host != name:
		return "is not host " + p.rules.Host
	case h == nil:
		return ""
	case !matches(p.rules.Selector, h.labels):
		return "does not have the labels " + text(p.rules.Selector)
	case h.drain && p.rules.Host != name:
		return "is being drained"
	default:
		return ""
	}
}

// canLeave returns the host that takes a VM which has to leave, or what keeps it. final reports that no room elsewhere
// would change it.
func (p *pass) canLeave(from string) (to, obstacle string, final bool) {
	l := p.ledger()

	if obstacle, final := l.fixed(&p.request, from); obstacle != "" {
		return "", obstacle, final
	}

	c := l.choose(&p.request, from)
	if c.host == "" {
		return "", c.text(&p.request), false
	}

	return c.host, "", false
}

// fixed says what keeps a VM on its host whatever room there is elsewhere; empty: nothing does. final reports that it stays so.
func (l *ledger) fixed(q *request, from string) (obstacle string, final bool) {
	h := l.hosts[from]

	switch {
	case q.settled:
		return "its disks are there", true
	case h == nil || !h.connected:
		return "it is not connected, so nothing can be taken away from it", false
	}

	for _, file := range q.files {
		if !h.shares(file) {
			return "its disk " + file + " is there, in no directory that hosts share", true
		}
	}

	return "", false
}

// giveUp ends the placement on a host that a person gave up, whatever of the VM is there, and has the VM placed anew.
func (p *pass) giveUp(ctx context.Context, current *resources.VMPlacement) error {
	spec := *current.TypedSpec()
	spec.Reason, spec.Hosts = resources.ReasonMoving, nil
	spec.Message = fmt.Sprintf("host %s was given up", spec.Host)

	if err := p.write(ctx, spec); err != nil {
		return err
	}

	p.logger.Warn("a VM leaves a host that was given up", zap.String("vm", p.id), zap.String("host", spec.Host), zap.String("cause", p.cause()))

	if gone, err := p.drop(ctx); err != nil || !gone {
		return err
	}

	return p.place(ctx)
}

// move claims the new host and begins the teardown on the old one. network and vm see it, let go, and the VM is placed
// anew.
func (p *pass) move(ctx context.Context, current *resources.VMPlacement, to, why string) error {
	l := p.ledger()

	spec := *current.TypedSpec()
	spec.Reason, spec.Hosts = resources.ReasonMoving, nil
	spec.Message = fmt.Sprintf("from host %s, which %s, to host %s", spec.Host, why, to)

	if err := p.write(ctx, spec); err != nil {
		return err
	}

	l.set(entry{request: p.request, host: spec.Host, reserved: spec.Reserved, claim: to})

	p.logger.Info("moving", zap.String("vm", p.id), zap.String("from", spec.Host), zap.String("to", to), zap.String("cause", p.cause()))

	if gone, err := p.drop(ctx); err != nil || !gone {
		return err
	}

	return p.place(ctx)
}
