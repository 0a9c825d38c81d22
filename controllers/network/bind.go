package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// retiringRetry is how often it is looked whether a domain has let go of an interface that its document no longer has:
// after a redefinition, or after the next restart.
const retiringRetry = 5 * time.Second

// bind gives the VM what its document asks for, and brings it to the host.
func (p *pass) bind(ctx context.Context) error {
	if p.lost() {
		return nil // it is in use where the VM is, wherever that is
	}

	if err := p.look(ctx, p.placement.TypedSpec().Host); err != nil {
		return err
	}

	if err := p.inspect(ctx); err != nil {
		return err
	}

	done, err := p.settle(ctx)
	if err != nil || done {
		return err
	}

	host := p.config.TypedSpec().Host

	if err := p.syncAll(ctx, host, p.config.TypedSpec().Interfaces); err != nil {
		return p.unsettled(ctx, host, err)
	}

	if err := p.ready(ctx); err != nil {
		return err
	}

	return p.retire(ctx, host)
}

// settle allocates and writes down what was allocated. done reports that nothing has to be brought to a host.
func (p *pass) settle(ctx context.Context) (done bool, err error) {
	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	l.declare(p.vm)

	want, prior := p.current()

	switch {
	case len(p.vm.TypedSpec().Interfaces) == 0 && len(want.Interfaces) == 0 && len(want.Retiring) == 0:
		want.Ready, want.Reason, want.Message = true, resources.ReasonNotNeeded, ""

		return true, p.note(ctx, want, wait{})
	case want.Host == "":
		want.Ready, want.Reason, want.Message = false, resources.ReasonPending, "the VM is not placed yet"

		return true, p.note(ctx, want, wait{})
	}

	bindings, waits, refused, err := p.allocate(ctx, prior)
	if err != nil {
		return false, err
	}

	if refused != nil {
		want.Ready, want.Reason, want.Message = false, refused.reason, refused.message

		if err := p.note(ctx, want, waits); err != nil {
			return false, err
		}

		return true, p.c.report(ctx, p.r)
	}

	// While it is tried again, it stays visible what was wrong the last time.
	if !slices.Equal(bindings, want.Interfaces) || want.Reason == "" {
		want.Ready, want.Reason, want.Message = false, resources.ReasonPending, ""
	}

	want.Retiring = retire(want.Interfaces, want.Retiring, bindings)
	want.Interfaces = bindings

	if err := p.note(ctx, want, wait{}); err != nil {
		return false, err
	}

	delete(l.last, p.id)

	return false, nil
}

// current is the NetworkConfig as it is, or a new one, for the host and the revision of now, and the bindings that the VM
// would like to keep. The caller holds the lock.
func (p *pass) current() (want resources.NetworkConfigSpec, prior []resources.NetworkBinding) {
	prior = p.c.ledger.last[p.id]

	if p.config != nil {
		want = p.config.TypedSpec().DeepCopy()

		if want.Host != "" {
			prior = want.Interfaces
		}
	}

	want.Host, want.Revision = p.placement.TypedSpec().Host, resources.RevisionOf(p.vm.Metadata())

	return want, prior
}

// note writes the NetworkConfig and the ledger's entry. The caller holds the lock.
func (p *pass) note(ctx context.Context, want resources.NetworkConfigSpec, waits wait) error {
	if err := p.write(ctx, want); err != nil {
		return err
	}

	next := holderOf(p.config)
	next.waits = waits

	if old := p.c.ledger.vms[p.id]; old != nil && slices.Equal(old.retiring, next.retiring) {
		next.released = old.released
	}

	p.c.ledger.set(next)

	return nil
}

func readyReason(bindings []resources.NetworkBinding) string {
	if len(bindings) == 0 {
		return resources.ReasonNotNeeded
	}

	return resources.ReasonNetworkReady
}

// ready says that everything is on the host.
func (p *pass) ready(ctx context.Context) error {
	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	want := *p.config.TypedSpec()
	want.Ready, want.Reason, want.Message = true, readyReason(want.Interfaces), ""

	if err := p.note(ctx, want, wait{}); err != nil {
		return err
	}

	return p.c.report(ctx, p.r)
}

// unsettled answers a failure to bring something to the host. What was ready stays so while nobody knows better.
func (p *pass) unsettled(ctx context.Context, host string, failure error) error {
	unknown := errors.Is(failure, hypervisor.ErrUnreachable) || errors.Is(failure, hypervisor.ErrBusy) || errors.Is(failure, chain.ErrUnderWay)

	if !p.config.TypedSpec().Ready || !unknown {
		return p.fail(ctx, host, failure)
	}

	if after := p.retryAfter(failure); p.connected {
		return controller.NewRequeueInterval(after)
	}

	return nil // the host's return leads here again
}

// retire ends the bindings that the VM no longer has, once its domain has let go of them: a network is not taken away
// from under a domain.
func (p *pass) retire(ctx context.Context, host string) error {
	var (
		now     = p.config.TypedSpec().Interfaces
		old     = p.config.TypedSpec().Retiring
		domain  *hypervisor.Domain
		pending []resources.NetworkBinding
	)

	if len(old) == 0 {
		return nil
	}

	defining := false

	if slices.ContainsFunc(old, func(b resources.NetworkBinding) bool { return !continued(b, now) }) {
		var err error
		if domain, err = p.domain(ctx, host); err != nil {
			return p.unsettled(ctx, host, err)
		}

		if defining, err = p.isDefining(ctx, domain); err != nil {
			return err
		}
	}

	for _, b := range old {
		if !continued(b, now) && (defining || domain != nil && uses(domain, b)) {
			pending = append(pending, b)
		}
	}

	released := slices.DeleteFunc(slices.Clone(old), func(b resources.NetworkBinding) bool { return slices.Contains(pending, b) })

	p.release(released)

	if err := p.syncAll(ctx, host, ours(released)); err != nil {
		return p.unsettled(ctx, host, err)
	}

	if err := p.retired(ctx, pending, old); err != nil {
		return err
	}

	if len(pending) > 0 {
		return controller.NewRequeueInterval(jitter(retiringRetry))
	}

	return nil
}

// isDefining reports whether the vm controller may be about to make a definition with the interfaces of an earlier revision: it has
// hold of the NetworkConfig, and the domain is not yet that of this revision.
func (p *pass) isDefining(ctx context.Context, domain *hypervisor.Domain) (bool, error) {
	config, err := chain.Get[*resources.NetworkConfig](ctx, p.r, p.pointer())
	if err != nil || !chain.Has(config, resources.ControllerVM) {
		return false, err
	}

	return domain == nil || domain.Revision < resources.RevisionOf(p.vm.Metadata()), nil
}

// continued reports whether the interface of a binding is still there with nothing but another address.
func continued(b resources.NetworkBinding, now []resources.NetworkBinding) bool {
	return slices.ContainsFunc(now, func(n resources.NetworkBinding) bool {
		n.Address = b.Address

		return n == b
	})
}

// release tells the ledger that the host may not have the bindings any more.
func (p *pass) release(released []resources.NetworkBinding) {
	p.c.ledger.mu.Lock()
	defer p.c.ledger.mu.Unlock()

	if h := p.c.ledger.vms[p.id]; h != nil {
		next := *h
		next.released = released
		p.c.ledger.set(next)
	}
}

// retired writes which bindings are left, and lets go of the networks of the others.
func (p *pass) retired(ctx context.Context, pending, old []resources.NetworkBinding) error {
	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	want := *p.config.TypedSpec()
	want.Retiring = pending

	if err := p.note(ctx, want, wait{}); err != nil {
		return err
	}

	if err := p.c.releaseNetworks(ctx, p.r, old); err != nil {
		return err
	}

	return p.c.report(ctx, p.r)
}

// domain looks for the VM's domain on its host; nil: there is none.
func (p *pass) domain(ctx context.Context, host string) (found *hypervisor.Domain, err error) {
	driver, err := p.c.options.Pool.Driver(host)
	if err != nil {
		return nil, fmt.Errorf("error finding the connection to host %q: %w", host, err)
	}

	ctx, cancel := context.WithTimeout(ctx, hypervisor.ReadTimeout)
	defer cancel()

	d, err := driver.Domain(ctx, hypervisor.DomainUUID(p.c.options.GatewayID, p.id))
	if errors.Is(err, hypervisor.ErrNotFound) {
		d, err = driver.DomainByName(ctx, p.vm.TypedSpec().DomainName(p.id)) // an adopted one has its own UUID
	}

	switch {
	case errors.Is(err, hypervisor.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("error looking for the domain of VM %q on host %q: %w", p.id, host, err)
	default:
		return &d, nil
	}
}
