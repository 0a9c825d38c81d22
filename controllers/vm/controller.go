package vm

import (
	"context"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// DefaultConcurrency is how many VMs are worked on at a time. A step waits for the store's barrier or for QEMU most of the
// time: 64 share one fsync, and keep the queue short while some hosts are slow. A host that hangs holds 16 of them for 5 s when
// many of its VMs are looked at in one moment, and some three otherwise: the pool sends the others away, and how many calls
// a host gets at once is its business.
const DefaultConcurrency = 128

// finalizer is this controller's mark on what it uses.
const finalizer = resources.ControllerVM

// Pool is what the controller needs of hypervisor.Pool.
type Pool interface {
	// Driver returns the connection to a host; an error that wraps hypervisor.ErrUnreachable while there is none.
	Driver(host string) (hypervisor.Driver, error)
	// Admit returns a hypervisor.CrowdedError while a host does not answer those who ask it already.
	Admit(host string) error
}

// Journal is what the controller needs of store.Journal.
type Journal interface {
	Append(e store.Entry) error
}

// Options of the controller. All but Concurrency, ReadSecret and OnReconcile are required.
type Options struct {
	Pool    Pool
	Barrier store.Barrier
	Journal Journal
	// GatewayID marks what is ours on hypervisors.
	GatewayID string
	Registry  prometheus.Registerer
	// Concurrency is how many VMs are worked on at a time; 0: DefaultConcurrency.
	Concurrency uint
	// ReadSecret reads a file that a document names for its secrets, if the policy allows; nil: none is read.
	ReadSecret func(path string) ([]byte, error)
	// OnReconcile is called at the start of each reconcile, if set.
	OnReconcile func(vm string)
}

// Controller reconciles VMs. It implements controller.QController.
type Controller struct {
	options    Options
	metrics    *metrics
	causes     chain.Causes
	sights     sights
	presses    presses
	insistence insistence
	resumes    resumes
	breaker    breaker
	// images serializes "does another VM use this image" with the release of a VM, so that of two VMs that are deleted at
	// the same time the second sees that it is the last.
	images sync.Mutex
	news   news
}

// New returns the controller.
func New(o Options) *Controller {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}

	return &Controller{options: o, metrics: newMetrics(o.Registry)}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerVM }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	mapped := func(ns resource.Namespace, typ resource.Type) controller.Input {
		return controller.Input{Namespace: ns, Type: typ, Kind: controller.InputQMapped}
	}

	return controller.QSettings{
		Inputs: append([]controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQPrimary},
			mapped(resources.NamespaceVMs, resources.OverrideType),
			mapped(resources.NamespaceBridge, resources.HoldType),
			mapped(resources.NamespaceHosts, resources.HostType),
			mapped(resources.NamespaceHosts, resources.HostStatusType),
			mapped(resources.NamespaceVMs, resources.ImageType),
			mapped(resources.NamespaceVMs, resources.ImageStatusType),
			mapped(resources.NamespaceVMs, resources.VMPlacementType),
			mapped(resources.NamespaceNetworks, resources.NetworkType),
			mapped(resources.NamespaceNetworks, resources.NetworkConfigType),
			mapped(resources.NamespaceEvents, resources.DomainEventType),
			mapped(resources.NamespaceVMs, resources.ResyncType),
		}, chain.EventInputs()...),
		Outputs: []controller.Output{
			{Type: resources.VMStatusType, Kind: controller.OutputExclusive},
			{Type: resources.TombstoneType, Kind: controller.OutputShared},
		},
		Concurrency: optional.Some(c.options.Concurrency),
	}
}

// Reconcile implements controller.QController: it looks at one VM and closes the difference.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) (err error) {
	if c.options.OnReconcile != nil {
		c.options.OnReconcile(ptr.ID())
	}

	c.metrics.reconciled(c.sights.take(ptr.ID()), time.Now())

	p := c.newPass(r, logger, ptr.ID())
	if err := p.read(ctx); err != nil || p.config == nil {
		return err
	}

	defer func() { err = p.finish(ctx, err) }()

	if p.leaving() {
		return p.leave(ctx)
	}

	return p.run(ctx,
		p.holdConfig,
		p.checkPlacement,
		p.checkNetwork,
		p.connect,
		p.observe,
		p.checkHold,
		p.claim,
		p.ensureVolumes,
		p.ensureSeed,
		p.define,
		p.power,
		p.dropSeeds,
		p.settle,
	)
}
