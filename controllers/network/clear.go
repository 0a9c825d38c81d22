package network

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/controllers/chain"
	"gateway/resources"
)

// clear ends the NetworkConfig: when vm has let go of it, the VM's entries are taken off the host, the networks that
// nobody uses there with them, and only then its addresses are free. It reports whether all of that is done.
func (p *pass) clear(ctx context.Context) (bool, error) {
	ready, err := p.r.Teardown(ctx, p.pointer())

	switch {
	case state.IsNotFoundError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("error tearing down the network configuration of VM %q: %w", p.id, err)
	case !ready:
		return false, nil
	}

	spec := *p.config.TypedSpec()
	leaving := p.leave()

	if spec.Host != "" {
		if err := p.look(ctx, spec.Host); err != nil {
			return false, err
		}

		lost, err := p.givenUp(ctx, spec.Host)
		if err != nil {
			return false, err
		}

		if !lost {
			if err := p.syncAll(ctx, spec.Host, ours(leaving)); err != nil {
				return false, p.fail(ctx, spec.Host, err)
			}
		}
	}

	return p.destroy(ctx, leaving)
}

// givenUp reports whether the host keeps what it has: a person gave it up, or, while it can't be reached, what the VM has
// there. When it is reached again, the next VM on the network takes the entry off.
func (p *pass) givenUp(ctx context.Context, name string) (bool, error) {
	host, err := chain.Get[*resources.Host](ctx, p.r, resources.NewHost(name).Metadata())
	if err != nil {
		return false, err
	}

	if host != nil && resources.IsAbandoned(host.Metadata()) {
		return true, nil
	}

	return !p.connected && p.vm != nil && !chain.Running(p.vm) && resources.IsAbandoned(p.vm.Metadata()), nil
}

// leave takes the VM off its segments, and returns its bindings.
func (p *pass) leave() []resources.NetworkBinding {
	p.c.ledger.mu.Lock()
	defer p.c.ledger.mu.Unlock()

	next := holderOf(p.config)
	next.leaving = true
	p.c.ledger.set(next)

	return next.bindings()
}

// destroy frees what the VM had. All of it happens under the lock, so that who waits for an address is told by the event
// of the destruction.
func (p *pass) destroy(ctx context.Context, bindings []resources.NetworkBinding) (bool, error) {
	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	switch err := p.r.Destroy(ctx, p.pointer()); {
	case err == nil, state.IsNotFoundError(err):
	case state.IsConflictError(err):
		return false, nil // a finalizer came in between: its end leads here again
	default:
		return false, fmt.Errorf("error destroying the network configuration of VM %q: %w", p.id, err)
	}

	kept := p.config.TypedSpec().Interfaces
	l.forget(p.id)

	if chain.Running(p.vm) {
		l.last[p.id] = kept
		l.declare(p.vm)
	}

	if err := p.c.releaseNetworks(ctx, p.r, bindings); err != nil {
		return false, err
	}

	return true, p.c.report(ctx, p.r)
}

// releaseNetworks takes the finalizer off the networks of bindings that no NetworkConfig uses any more. The caller holds
// the lock, so that nobody allocates on them at the same time.
func (c *Controller) releaseNetworks(ctx context.Context, r controller.QRuntime, bindings []resources.NetworkBinding) error {
	for _, b := range bindings {
		if err := c.releaseNetwork(ctx, r, b.Network); err != nil {
			return err
		}
	}

	return nil
}

func (c *Controller) releaseNetwork(ctx context.Context, r controller.QRuntime, name string) error {
	if n := c.ledger.networks[name]; n != nil && len(n.users) > 0 {
		return nil
	}

	declared, err := chain.Get[*resources.Network](ctx, r, networkPointer(name))
	if err != nil || !chain.Has(declared, finalizer) {
		return err
	}

	return chain.Release(ctx, r, declared.Metadata(), finalizer)
}
