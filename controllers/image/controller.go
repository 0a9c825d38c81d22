package image

import (
	"context"
	"io"
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

const (
	// finalizer is this controller's mark on the images whose files it brings to hosts.
	finalizer = resources.ControllerImage
	// concurrency of images: a reconcile waits for nothing but the store.
	concurrency = 4
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

// Source opens the URLs of images.
type Source interface {
	// Open returns the content of a URL, and how many bytes it has; 0: not known. Reading ends with an error when the server
	// stops sending, and when ctx ends.
	Open(ctx context.Context, url string) (content io.ReadCloser, size int64, err error)
}

// Options of the controller. All are required.
type Options struct {
	Pool     Pool
	Barrier  store.Barrier
	Journal  Journal
	Source   Source
	Registry prometheus.Registerer
}

// Controller brings images to hosts. It implements controller.QController.
type Controller struct {
	options Options
	metrics *metrics
	jobs    jobs
	// holds serializes holding and letting go of hosts with the statuses that say why.
	holds sync.Mutex
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{options: o, metrics: newMetrics(o.Registry)}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerImage }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.ImageType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceHosts, Type: resources.HostType, Kind: controller.InputQMapped},
			{Namespace: resources.NamespaceHosts, Type: resources.HostStatusType, Kind: controller.InputQMapped},
			{Namespace: resources.NamespaceVMs, Type: resources.ResyncType, Kind: controller.InputQMapped},
		},
		Outputs:      []controller.Output{{Type: resources.ImageStatusType, Kind: controller.OutputExclusive}},
		Concurrency:  optional.Some[uint](concurrency),
		ShutdownHook: c.jobs.close,
	}
}

// Reconcile implements controller.QController: it looks at one image on all hosts.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	image, err := chain.Get[*resources.Image](ctx, r, ptr)
	if err != nil || image == nil {
		return err
	}

	p := &pass{c: c, r: r, logger: logger.With(zap.String("image", ptr.ID())), image: image, now: time.Now().UTC().Round(0)}
	if err := p.read(ctx); err != nil {
		return err
	}

	if !chain.Running(image) {
		return p.tearDown(ctx)
	}

	if ok, err := chain.Hold[*resources.Image](ctx, r, image.Metadata(), finalizer); err != nil || !ok {
		return err
	}

	return p.bring(ctx)
}
