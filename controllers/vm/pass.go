package vm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// pass is one look at one VM: what was read, what was seen, and what its status becomes. One goroutine owns it.
type pass struct {
	c      *Controller
	r      controller.QRuntime
	logger *zap.Logger
	id     resource.ID
	// now is the time of the pass, in UTC and without a monotonic reading, so that it survives the store unchanged.
	now time.Time
	// tick is the same with its monotonic reading, for what only this process remembers.
	tick time.Time
	// causes are what was noted to have led here; led is the one of them, or another, that what is done is attributed to.
	causes []string
	led    string

	config     *resources.VMConfig
	placement  *resources.VMPlacement
	network    *resources.NetworkConfig
	override   *resources.Override
	hold       *resources.Hold
	hostStatus *resources.HostStatus
	current    *resources.VMStatus // nil while there is none

	// spec is the declared one with the override applied, of which patch is in force.
	spec   *resources.VMConfigSpec
	patch  resources.JSON
	status resources.VMStatusSpec

	driver hypervisor.Driver
	// domain is what was seen; nil: there is none that is ours.
	domain *hypervisor.Domain
	// disks are the paths of the volumes, by the name of the disk.
	disks map[string]string
	// live is what the last definition did to the running domain; nil: nothing was defined.
	live *hypervisor.DefineResult
	// mends reports that the pass goes on with a mending that an earlier one began.
	mends bool
	// answers is the reason of what answers the end of a guest; empty: nothing does.
	answers string
	// networkReady reports whether the VM's networks are on its host.
	networkReady bool
	// blocked is why the definition can't be made now; nil: it can.
	blocked *resources.Condition

	// durable reports whether the barrier was passed; acted, whether something outside was changed.
	durable, acted bool
	// silent: no status is written any more. judged: it was said how far the VM is.
	silent, judged bool
	// requeue is the shortest of the times after which to look again; 0: none.
	requeue time.Duration
}

// step is one step of a pass. next is false when the pass ends here, since it has to wait for something that its status
// names.
type step func(ctx context.Context) (next bool, err error)

func (c *Controller) newPass(r controller.QRuntime, logger *zap.Logger, id resource.ID) *pass {
	tick := time.Now()

	return &pass{
		c: c, r: r, logger: logger.WithLazy(zap.String("vm", id)), id: id,
		now: tick.UTC().Round(0), tick: tick, causes: c.causes.Take(id), disks: map[string]string{},
	}
}

// anchor lets what began in the future, before a clock was set back, begin now: a wait is never longer than it was meant to be
// from here on.
func (p *pass) anchor() {
	for _, began := range []*time.Time{&p.status.Started, &p.status.StopRequested} {
		if began.After(p.now) {
			*began = p.now
		}
	}
}

// run takes the steps in their order until one has to wait.
func (p *pass) run(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if next, err := s(ctx); err != nil || !next {
			return err
		}
	}

	return nil
}

// after asks for another look after d at the latest.
func (p *pass) after(d time.Duration) {
	if d = max(d, minRequeue); p.requeue == 0 || d < p.requeue {
		p.requeue = d
	}
}

// minRequeue keeps a rounding error from becoming a busy loop.
const minRequeue = 10 * time.Millisecond

// read reads everything that the pass depends on.
func (p *pass) read(ctx context.Context) (err error) {
	if p.config, err = get[*resources.VMConfig](ctx, p, resources.NewVMConfig(p.id).Metadata()); err != nil || p.config == nil {
		return err
	}

	if p.placement, err = get[*resources.VMPlacement](ctx, p, resources.NewVMPlacement(p.id).Metadata()); err != nil {
		return err
	}

	if p.network, err = get[*resources.NetworkConfig](ctx, p, resources.NewNetworkConfig(p.id).Metadata()); err != nil {
		return err
	}

	if p.override, err = get[*resources.Override](ctx, p, resources.NewOverride(p.id).Metadata()); err != nil {
		return err
	}

	if p.hold, err = get[*resources.Hold](ctx, p, resources.NewHold(resources.HoldID("VM", p.id)).Metadata()); err != nil {
		return err
	}

	if host := p.host(); host != "" {
		if p.hostStatus, err = get[*resources.HostStatus](ctx, p, resources.NewHostStatus(host).Metadata()); err != nil {
			return err
		}
	}

	if p.current, err = get[*resources.VMStatus](ctx, p, resources.NewVMStatus(p.id).Metadata()); err != nil {
		return err
	}

	p.beginStatus()

	return nil
}

func get[R resource.Resource](ctx context.Context, p *pass, ptr resource.Pointer) (R, error) {
	return chain.Get[R](ctx, p.r, ptr)
}

// host is where the VM was placed; empty while it is nowhere.
func (p *pass) host() string {
	if p.placement == nil {
		return ""
	}

	return p.placement.TypedSpec().Host
}

// holdConfig holds the VMConfig, before anything is written or done that has to be undone.
func (p *pass) holdConfig(ctx context.Context) (bool, error) {
	ok, err := chain.Hold[*resources.VMConfig](ctx, p.r, p.config.Metadata(), finalizer)
	if !ok {
		p.silent = true // it is being torn down: that is another pass
	}

	return ok, err
}

// claim holds the placement and the network, and goes on only if the placement is still the one that was read.
func (p *pass) claim(ctx context.Context) (bool, error) {
	// Nothing is held before there is something to do: what was never held is let go without asking the host.
	if p.domain == nil && p.blocked != nil {
		p.converged(resources.ConditionFalse, p.blocked.Reason, p.blocked.Message)

		return false, nil
	}

	ok, err := chain.Hold[*resources.VMPlacement](ctx, p.r, p.placement.Metadata(), finalizer)
	if err != nil || !ok {
		return false, err
	}

	if chain.Running(p.network) {
		if ok, err = chain.Hold[*resources.NetworkConfig](ctx, p.r, p.network.Metadata(), finalizer); err != nil || !ok {
			return false, err
		}

		// What was read before the finalizer stood may be let go of by now. The change itself leads here again.
		now, err := get[*resources.NetworkConfig](ctx, p, p.network.Metadata())
		if err != nil || !chain.Running(now) || !slices.Equal(now.TypedSpec().Interfaces, p.network.TypedSpec().Interfaces) {
			return false, err
		}
	}

	again, err := get[*resources.VMPlacement](ctx, p, p.placement.Metadata())
	if err != nil {
		return false, err
	}

	return chain.Running(again) && again.TypedSpec().Host == p.host() &&
		again.Metadata().Created().Equal(p.placement.Metadata().Created()), nil
}

// act takes one step that may change something outside: only after what led to it is durable, and with an entry in the
// journal when it did change something.
func (p *pass) act(ctx context.Context, what string, do func() (changed bool, err error)) error {
	if !p.durable {
		if err := p.c.options.Barrier.Barrier(ctx); err != nil {
			return fmt.Errorf("error waiting for the store before step %q of VM %q: %w", what, p.id, err)
		}

		p.durable = true
	}

	changed, err := do()
	if err != nil {
		p.acted = true // nobody knows how far it came

		return fmt.Errorf("error in step %q of VM %q on host %q: %w", what, p.id, p.host(), err)
	}

	if !changed {
		return nil
	}

	reason := p.answers
	if reason == "" && (p.mends || p.drifted()) {
		reason = reasonDrift
	}

	p.acted = true
	p.logger.Info("changed the hypervisor", zap.String("step", what), zap.String("host", p.host()), zap.String("cause", p.cause()))

	if err := p.c.options.Journal.Append(store.Entry{
		Class: store.ClassHypervisor, Source: resources.ControllerVM, Name: p.host(), EventID: p.cause(),
		Object: "VM/" + p.id, Message: what, Reason: reason,
	}); err != nil {
		return fmt.Errorf("error noting step %q of VM %q: %w", what, p.id, err)
	}

	return nil
}

// always makes a step of one that does not tell whether it changed something.
func always(err error) (bool, error) { return err == nil, err }
