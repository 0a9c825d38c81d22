package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// pass is one look at one VM. One goroutine owns it.
type pass struct {
	c      *Controller
	r      controller.QRuntime
	logger *zap.Logger
	id     resource.ID
	causes []string

	// vm is the VM as it is declared, effective as it counts.
	vm, effective *resources.VMConfig
	request
	// former is where the VM was when a backup was taken that the store was restored from.
	former string
}

func (p *pass) ledger() *ledger { return &p.c.ledger }

func (p *pass) pointer() resource.Pointer { return resources.NewVMPlacement(p.id).Metadata() }

// remove ends the placement of a VM that is being taken away, and lets go of the VM when it is gone.
func (p *pass) remove(ctx context.Context, vm *resources.VMConfig) error {
	l := p.ledger()

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, p.r); err != nil {
		return err
	}

	if err := p.findFormer(ctx); err != nil {
		return err
	}

	if gone, err := p.drop(ctx); err != nil || !gone {
		return err
	}

	l.forget(p.id)

	if !chain.Has(vm, finalizer) {
		return nil
	}

	return chain.Release(ctx, p.r, vm.Metadata(), finalizer)
}

// drop ends the placement and reports whether it is gone. Until then its reservation stays. The caller holds the lock.
func (p *pass) drop(ctx context.Context) (bool, error) {
	current, err := chain.Get[*resources.VMPlacement](ctx, p.r, p.pointer())
	if err != nil {
		return false, err
	}

	if current == nil {
		return true, nil
	}

	if gone, err := chain.Drop(ctx, p.r, p.pointer()); err != nil || !gone {
		return false, err
	}

	l := p.ledger()
	name := current.TypedSpec().Host

	if name == "" {
		return true, nil
	}

	if e := l.vms[p.id]; e != nil {
		ended := *e
		ended.host, ended.reserved = "", resources.Capacity{}
		l.set(ended)
	}

	l.asked.ended(p.c.options.GatewayID, p.id, l.hosts[name])

	return true, p.c.releaseHost(ctx, p.r, name)
}

// decide looks at a VM that is to be somewhere.
func (p *pass) decide(ctx context.Context) error {
	l := p.ledger()

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, p.r); err != nil {
		return err
	}

	if err := p.begin(ctx); err != nil {
		return err
	}

	p.request = requestOf(p.effective, l.sizes)

	current, err := chain.Get[*resources.VMPlacement](ctx, p.r, p.pointer())
	if err != nil {
		return err
	}

	if current != nil && current.TypedSpec().Host == "" {
		p.former = current.TypedSpec().Former
	}

	switch {
	case current == nil || chain.Running(current) && current.TypedSpec().Host == "":
		return p.place(ctx)
	case chain.Running(current):
		return p.keep(ctx, current)
	}

	if gone, err := p.drop(ctx); err != nil || !gone {
		return err
	}

	return p.place(ctx)
}

// begin waits for the hosts that documents declare, where nothing says where VMs were before: the store is new, or was lost, and
// then a VM's domain may be on a host that is not known yet. There is nothing else to do meanwhile. The caller holds the lock; it is
// given up while that is waited for.
func (p *pass) begin(ctx context.Context) error {
	l, known := p.ledger(), p.c.options.HostsKnown
	if !l.blank || known == nil {
		return nil
	}

	timer := time.NewTimer(time.Until(l.loadedAt.Add(settleTime)))
	defer timer.Stop()

	l.mu.Unlock()

	var err error

	select {
	case <-known:
	case <-timer.C:
	case <-ctx.Done():
		err = fmt.Errorf("error waiting for the hosts of the documents directories: %w", context.Cause(ctx))
	}

	l.mu.Lock()

	if err == nil && l.blank {
		l.blank, l.listed = false, time.Time{} // there may be hosts that were not listed
	}

	return err
}

// write makes the placement what it should be. One that is so already is not touched.
func (p *pass) write(ctx context.Context, want resources.VMPlacementSpec) error {
	err := p.r.Modify(ctx, resources.NewVMPlacement(p.id), func(r resource.Resource) error {
		placement, ok := r.(*resources.VMPlacement)
		if !ok {
			return fmt.Errorf("VMPlacement %q has the Go type %T", p.id, r)
		}

		// Until it is placed, it may be somewhere.
		if want.Host == "" && placement.TypedSpec().Host == "" {
			want.Former = placement.TypedSpec().Former
		}

		host, _ := placement.Metadata().Labels().Get(resources.LabelHost)
		if equal(placement.TypedSpec(), &want) && host == want.Host {
			return nil
		}

		if placement.Metadata().Version().Equal(resource.VersionUndefined) {
			for _, holder := range p.c.options.Holders {
				placement.Metadata().Finalizers().Add(holder)
			}
		}

		*placement.TypedSpec() = want

		labels := map[string]string{}
		if want.Host != "" {
			labels[resources.LabelHost] = want.Host
		}

		resources.SetLabels(placement.Metadata(), labels)
		resources.SetCause(placement.Metadata(), p.cause())

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the placement of VM %q: %w", p.id, err)
	}

	return nil
}

func equal(a, b *resources.VMPlacementSpec) bool {
	return a.Host == b.Host && a.Reason == b.Reason && a.Message == b.Message && a.Reserved == b.Reserved &&
		a.Revision == b.Revision && a.Former == b.Former && slices.Equal(a.Hosts, b.Hosts)
}

// cause is what led here: the event, or what last changed the VM.
func (p *pass) cause() string {
	if len(p.causes) > 0 {
		return p.causes[0]
	}

	if p.vm != nil {
		if cause := resources.CauseOf(p.vm.Metadata()); cause != "" {
			return cause
		}
	}

	return "resync"
}

func (p *pass) revision() int64 { return resources.RevisionOf(p.vm.Metadata()) }

// anyPlacementOn reports whether a VMPlacement names the host, read from the state itself. It is a scan, made only when a
// host became empty.
func anyPlacementOn(ctx context.Context, r controller.QRuntime, name string) (bool, error) {
	list, err := r.ListUncached(ctx, resources.NewVMPlacement("").Metadata(),
		state.WithLabelQuery(resource.LabelEqual(resources.LabelHost, name)))
	if err != nil {
		return false, fmt.Errorf("error listing the placements on host %q: %w", name, err)
	}

	return len(list.Items) > 0, nil
}
