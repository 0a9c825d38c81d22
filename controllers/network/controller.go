package network

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
	"gateway/store"
)

const (
	// finalizer is this controller's mark on what it uses.
	finalizer = resources.ControllerNetwork
	// concurrency is how many VMs are worked on at a time; they share the calls.
	concurrency = 32
	// patience is how long a worker waits for a call to a host. libvirt makes a network in about half a second.
	patience = time.Second
)

// Pool is what the controller needs of hypervisor.Pool.
type Pool interface {
	// Driver returns the connection to a host; an error that wraps hypervisor.ErrUnreachable while there is none.
	Driver(host string) (hypervisor.Driver, error)
}

// Journal is what the controller needs of store.Journal.
type Journal interface {
	Append(e store.Entry) error
}

// Options of the controller. All are required.
type Options struct {
	Pool    Pool
	Barrier store.Barrier
	Journal Journal
	// GatewayID marks what is ours on hypervisors.
	GatewayID string
}

// Controller makes networks. It implements controller.QController.
type Controller struct {
	options Options
	ledger  ledger
	flights *chain.Flights[string] // by host and network, or by VM
	causes  chain.Causes
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{options: o, flights: chain.NewFlights[string](patience)}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerNetwork }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	mapped := func(ns resource.Namespace, typ resource.Type) controller.Input {
		return controller.Input{Namespace: ns, Type: typ, Kind: controller.InputQMapped}
	}

	return controller.QSettings{
		Inputs: append([]controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQPrimary},
			mapped(resources.NamespaceNetworks, resources.NetworkType),
			mapped(resources.NamespaceHosts, resources.HostType),
			mapped(resources.NamespaceHosts, resources.HostStatusType),
			mapped(resources.NamespaceVMs, resources.VMPlacementType),
			mapped(resources.NamespaceNetworks, resources.NetworkConfigType),
			mapped(resources.NamespaceEvents, resources.DomainEventType),
			mapped(resources.NamespaceVMs, resources.OverrideType),
			mapped(resources.NamespaceVMs, resources.ResyncType),
		}, chain.EventInputs()...),
		Outputs: []controller.Output{
			{Type: resources.NetworkConfigType, Kind: controller.OutputExclusive},
			{Type: resources.NetworkStatusType, Kind: controller.OutputExclusive},
		},
		Concurrency:  optional.Some[uint](concurrency),
		RunHook:      c.start,
		ShutdownHook: c.stop,
	}
}

// Reconcile implements controller.QController: it looks at the networks of one VM.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	p := &pass{c: c, r: r, logger: logger, id: ptr.ID(), causes: c.causes.Take(ptr.ID())}

	if err := p.read(ctx); err != nil {
		return err
	}

	if p.outdated() {
		if gone, err := p.clear(ctx); err != nil || !gone {
			return err
		}

		p.config = nil
	}

	if !p.needed() {
		return p.letGo(ctx)
	}

	if ok, err := p.hold(ctx); err != nil || !ok {
		return err
	}

	return p.bind(ctx)
}

// stop forgets everything: another controller may write between this run and the next.
func (c *Controller) stop() {
	c.flights.Close()
	c.ledger.reset()
}
