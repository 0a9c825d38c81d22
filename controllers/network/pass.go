package network

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/internal/overrides"
	"gateway/resources"
)

// pass is one look at one VM. One goroutine owns it.
type pass struct {
	c      *Controller
	r      controller.QRuntime
	logger *zap.Logger
	id     resource.ID
	causes []string

	// vm is as it counts: with its override.
	vm        *resources.VMConfig
	placement *resources.VMPlacement
	config    *resources.NetworkConfig
	// connected and generation are those of the host that the pass is about.
	connected  bool
	generation int64
	// force wants the hosts to be looked at, whatever is known of them.
	force bool
}

// read reads what the pass depends on.
func (p *pass) read(ctx context.Context) (err error) {
	declared, err := chain.Get[*resources.VMConfig](ctx, p.r, chain.VM(p.id))
	if err != nil {
		return err
	}

	override, err := chain.Get[*resources.Override](ctx, p.r, resources.NewOverride(p.id).Metadata())
	if err != nil {
		return err
	}

	p.vm = overrides.Effective(declared, override)

	if p.placement, err = chain.Get[*resources.VMPlacement](ctx, p.r, resources.NewVMPlacement(p.id).Metadata()); err != nil {
		return err
	}

	if p.config, err = chain.Get[*resources.NetworkConfig](ctx, p.r, p.pointer()); err != nil {
		return err
	}

	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, p.r); err != nil {
		return err
	}

	_, p.force = l.forced[p.id]
	delete(l.forced, p.id)

	return nil
}

func (p *pass) pointer() resource.Pointer { return resources.NewNetworkConfig(p.id).Metadata() }

// lost reports whether the VM is looked for after a restore.
func (p *pass) lost() bool {
	spec := p.placement.TypedSpec()

	return p.config != nil && spec.Host == "" && spec.Former != ""
}

// needed reports whether the VM is to have a NetworkConfig.
func (p *pass) needed() bool { return chain.Running(p.vm) && chain.Running(p.placement) }

// outdated reports whether the NetworkConfig that is there has to go first: the VM goes, or it is on another host.
func (p *pass) outdated() bool {
	if p.config == nil {
		return false
	}

	if !p.needed() || !chain.Running(p.config) {
		return true
	}

	host, placed := p.config.TypedSpec().Host, p.placement.TypedSpec()

	// After a restore, what it has stays until it was found, and is brought to where it was.
	return host != "" && host != placed.Host && host != placed.Former
}

// hold puts the finalizers on VM and placement, and reports whether the placement is still the one that was read.
func (p *pass) hold(ctx context.Context) (bool, error) {
	if ok, err := chain.Hold[*resources.VMConfig](ctx, p.r, p.vm.Metadata(), finalizer); err != nil || !ok {
		return false, err
	}

	if ok, err := chain.Hold[*resources.VMPlacement](ctx, p.r, p.placement.Metadata(), finalizer); err != nil || !ok {
		return false, err
	}

	again, err := chain.Get[*resources.VMPlacement](ctx, p.r, p.placement.Metadata())
	if err != nil || !chain.Running(again) {
		return false, err
	}

	return again.TypedSpec().Host == p.placement.TypedSpec().Host &&
		again.Metadata().Created().Equal(p.placement.Metadata().Created()), nil
}

// letGo releases the placement, and a VM that is being taken away.
func (p *pass) letGo(ctx context.Context) error {
	if chain.Has(p.placement, finalizer) {
		if err := chain.Release(ctx, p.r, p.placement.Metadata(), finalizer); err != nil {
			return err
		}
	}

	if p.vm != nil && chain.Running(p.vm) {
		return nil
	}

	p.c.ledger.mu.Lock()
	p.c.ledger.forget(p.id)
	p.c.ledger.mu.Unlock()

	if !chain.Has(p.vm, finalizer) {
		return nil
	}

	return chain.Release(ctx, p.r, p.vm.Metadata(), finalizer)
}

// look reads which connection the host is in.
func (p *pass) look(ctx context.Context, host string) error {
	status, err := chain.Get[*resources.HostStatus](ctx, p.r, resources.NewHostStatus(host).Metadata())
	if err != nil || status == nil {
		return err
	}

	p.connected, p.generation = status.TypedSpec().Connected, status.TypedSpec().Generation

	return nil
}

// ours are the bindings on networks that the gateway makes: there is nothing to take away of others.
func ours(bindings []resources.NetworkBinding) []resources.NetworkBinding {
	return slices.DeleteFunc(slices.Clone(bindings), func(b resources.NetworkBinding) bool { return !b.Ours })
}

// syncAll brings the segments of bindings to the host, one after the other; the first error ends it.
func (p *pass) syncAll(ctx context.Context, host string, bindings []resources.NetworkBinding) error {
	var done []string

	for _, b := range bindings {
		if b.LibvirtNetwork == "" || slices.Contains(done, b.Network) {
			continue
		}

		done = append(done, b.Network)

		if err := p.sync(ctx, host, b.Network); err != nil {
			return err
		}
	}

	return nil
}

// fail writes why the network is not ready, or not gone, and says when to look again.
func (p *pass) fail(ctx context.Context, host string, failure error) error {
	l := &p.c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	why := problemOf(failure)
	after := p.retryAfter(failure)
	known := true

	// A call that takes a moment is no news, unless the one before it failed: then the host hangs.
	if errors.Is(failure, chain.ErrUnderWay) {
		if why, known = p.lastFailure(host); known {
			after = jitter(hungRetry)
		}
	}

	if known {
		spec := *p.config.TypedSpec()
		spec.Ready, spec.Reason, spec.Message = false, why.reason, why.message

		if err := p.write(ctx, spec); err != nil {
			return err
		}
	}

	if h := l.vms[p.id]; h != nil {
		next := *h
		next.ready, next.waits = p.config.TypedSpec().Ready, wait{host: host}
		l.set(next)
	}

	if err := p.c.report(ctx, p.r); err != nil {
		return err
	}

	if after > 0 {
		return controller.NewRequeueInterval(after)
	}

	return failure
}

// lastFailure returns why the last call for a network of the VM failed on the host.
func (p *pass) lastFailure(host string) (problem, bool) {
	for _, b := range slices.Concat(p.config.TypedSpec().Interfaces, p.config.TypedSpec().Retiring) {
		if failure, failed := p.c.ledger.network(b.Network).failures[host]; failed {
			return failure, true
		}
	}

	return problem{}, false
}

// write makes the NetworkConfig what it should be. One that is so already is not touched. The caller holds the lock.
func (p *pass) write(ctx context.Context, want resources.NetworkConfigSpec) error {
	got, err := p.r.ModifyWithResult(ctx, resources.NewNetworkConfig(p.id), func(r resource.Resource) error {
		config, ok := r.(*resources.NetworkConfig)
		if !ok {
			return fmt.Errorf("NetworkConfig %q has the Go type %T", p.id, r)
		}

		host, _ := config.Metadata().Labels().Get(resources.LabelHost)
		if equal(config.TypedSpec(), &want) && host == want.Host {
			return nil
		}

		*config.TypedSpec() = want.DeepCopy()

		labels := map[string]string{}
		if want.Host != "" {
			labels[resources.LabelHost] = want.Host
		}

		resources.SetLabels(config.Metadata(), labels)
		resources.SetCause(config.Metadata(), p.cause())

		return nil
	}, controller.WithExpectedPhaseAny()) // why one in teardown does not go is written as well
	if err != nil {
		return fmt.Errorf("error writing the network configuration of VM %q: %w", p.id, err)
	}

	if config, ok := got.(*resources.NetworkConfig); ok {
		p.config = config
	}

	return nil
}

func equal(a, b *resources.NetworkConfigSpec) bool {
	return a.Host == b.Host && a.Ready == b.Ready && a.Reason == b.Reason && a.Message == b.Message && a.Revision == b.Revision &&
		slices.Equal(a.Interfaces, b.Interfaces) && slices.Equal(a.Retiring, b.Retiring)
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

// uses reports whether the VM's domain on the host still has the interface of a binding. A domain that is on has it until
// it was started again, when its interfaces differ from its definition.
func uses(d *hypervisor.Domain, b resources.NetworkBinding) bool {
	off := d.State == resources.StateStopped || d.State == resources.StateCrashed
	if !off && slices.Contains(d.RestartRequired, hypervisor.FieldInterfaces) {
		return true
	}

	return slices.ContainsFunc(d.Spec.Interfaces, func(i hypervisor.DomainInterface) bool {
		return i.MAC == b.MAC && i.Network == b.LibvirtNetwork && i.Bridge == b.Bridge
	})
}
