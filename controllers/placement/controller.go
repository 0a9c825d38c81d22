package placement

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// finalizer is this controller's mark on what it uses.
	finalizer = resources.ControllerPlacement
	// concurrency is how many VMs are worked on at a time. Decisions are made one by one; what runs beside each other is
	// reading and waiting for the answers of hosts.
	concurrency = 16
	// patience is how long a worker waits for a host's list of domains. A real host lists 10,000 in about 0.4 s.
	patience = 500 * time.Millisecond
	// askAgain is when a VM looks again for which a connected host has not answered: no event will tell.
	askAgain = time.Second
)

// Pool is what the controller needs of hypervisor.Pool.
type Pool interface {
	// Driver returns the connection to a host; an error that wraps hypervisor.ErrUnreachable while there is none.
	Driver(host string) (hypervisor.Driver, error)
}

// Options of the controller. All are required.
type Options struct {
	Pool Pool
	// GatewayID marks what is ours on hypervisors.
	GatewayID string
	// Holders are the controllers that hold every placement: a new one has their finalizers, so that they need no write each to
	// put them on.
	Holders []resource.Finalizer
	// HostsKnown is closed when the Hosts are declared that the documents directories have; nil: they are. A process that begins
	// without any placement waits for it, up to settleTime.
	HostsKnown <-chan struct{}
}

// Controller places VMs. It implements controller.QController.
type Controller struct {
	options Options
	ledger  ledger
	flights *chain.Flights[string] // by host
	causes  chain.Causes
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{options: o, flights: chain.NewFlights[string](patience)}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerPlacement }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	mapped := func(ns resource.Namespace, typ resource.Type) controller.Input {
		return controller.Input{Namespace: ns, Type: typ, Kind: controller.InputQMapped}
	}

	return controller.QSettings{
		Inputs: append([]controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQPrimary},
			mapped(resources.NamespaceHosts, resources.HostType),
			mapped(resources.NamespaceHosts, resources.HostStatusType),
			mapped(resources.NamespaceVMs, resources.VMPlacementType),
			mapped(resources.NamespaceVMs, resources.OverrideType),
			mapped(resources.NamespaceVMs, resources.ImageStatusType),
			mapped(resources.NamespaceVMs, resources.ResyncType),
		}, chain.EventInputs()...),
		Outputs:      []controller.Output{{Type: resources.VMPlacementType, Kind: controller.OutputExclusive}},
		Concurrency:  optional.Some[uint](concurrency),
		RunHook:      c.start,
		ShutdownHook: c.stop,
	}
}

// Reconcile implements controller.QController: it decides about one VM.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	p := &pass{c: c, r: r, logger: logger, id: ptr.ID(), causes: c.causes.Take(ptr.ID())}

	vm, err := chain.Get[*resources.VMConfig](ctx, r, chain.VM(p.id))
	if err != nil {
		return err
	}

	if !chain.Running(vm) {
		return p.remove(ctx, vm)
	}

	if ok, err := chain.Hold[*resources.VMConfig](ctx, r, vm.Metadata(), finalizer); err != nil || !ok {
		return err
	}

	effective, err := under(ctx, r, vm)
	if err != nil {
		return err
	}

	p.vm, p.effective = vm, effective

	return p.decide(ctx)
}

// start releases the hosts that the process let go of without coming to say so.
func (c *Controller) start(ctx context.Context, _ *zap.Logger, r controller.QRuntime) error {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()

	if err := c.ledger.load(ctx, r); err != nil {
		return err
	}

	for _, name := range c.ledger.order {
		if err := c.releaseHost(ctx, r, name); err != nil {
			return err
		}
	}

	return nil
}

// stop forgets everything: another controller may write between this run and the next.
func (c *Controller) stop() {
	c.flights.Close()
	c.ledger.reset()
}

// releaseHost takes the finalizer off a host that no placement names. The caller holds the ledger's lock, so that nobody
// places a VM there at the same time.
func (c *Controller) releaseHost(ctx context.Context, r controller.QRuntime, name string) error {
	if len(c.ledger.of(name).vms) > 0 {
		return nil
	}

	declared, err := chain.Get[*resources.Host](ctx, r, hostPointer(name))
	if err != nil || !chain.Has(declared, finalizer) {
		return err
	}

	if named, err := anyPlacementOn(ctx, r, name); err != nil || named {
		return err
	}

	return chain.Release(ctx, r, declared.Metadata(), finalizer)
}
