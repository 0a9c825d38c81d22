// Package gateway is the composition root of Gateway, an event bridge that keeps libvirt hypervisors in their declared
// state: it builds the state, the COSI runtime, sources, controllers and sinks from a configuration. Another Go service
// can embed it: New, State, Run.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gateway/api"
	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/sources/intake"
	"gateway/sources/webhooks"
	"gateway/store"
)

// Gateway is one gateway: everything that runs in one process.
type Gateway struct {
	cfg     *config.Config
	options options
	logger  *zap.Logger

	registry  *prometheus.Registry
	rebuilds  prometheus.Counter
	intake    *intake.Metrics
	store     store.Store
	admission *store.Admission
	pacer     *store.Pacer
	pool      *hypervisor.Pool
	hooks     *webhooks.Server
	shared    sharedMetrics

	http         *api.HTTP
	certificates *api.Certificates
	socket       *api.Socket
	runtime      health
	broker       health
}

// New opens the data directory and takes the listeners' addresses, so that what can't work is an error here. Nothing is
// taken in or done before Run. Close releases it if Run is never called.
func New(cfg *config.Config, opts ...Option) (*Gateway, error) {
	g := &Gateway{cfg: cfg, options: defaultOptions(), registry: prometheus.NewRegistry()}
	for _, opt := range opts {
		opt(&g.options)
	}

	g.logger = g.options.logger
	g.rebuilds = registerProcess(g.registry)
	g.intake = intake.NewMetrics(g.registry)
	g.shared = newSharedMetrics(g.registry)
	g.runtime.set(errors.New("starting"))
	g.broker.set(errors.New("starting"))

	var err error

	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()

	g.store, err = store.Open(ctx, store.Options{
		DataDir: cfg.DataDir, Engine: cfg.Store.Engine, ID: cfg.ID, Logger: g.logger.Named("store"), Registry: g.registry,
	})
	if err != nil {
		return nil, err
	}

	policy := cfg.Policy
	policy.NATSPrefix = cfg.NATS.Prefix

	g.admission = store.NewAdmission(policy, g.store.Journal())
	g.admission.Hold("VM", resources.ControllerPlacement, resources.ControllerNetwork, resources.ControllerVM)
	g.pacer = store.NewPacer(0).Discount(g.shared.chain.Parked)
	g.pool = hypervisor.NewPool(g.options.openers, g.store.GatewayID(), hypervisor.PoolOptions{
		Logger: g.logger.Named("hypervisor"), Registry: g.registry,
	})
	g.hooks = webhooks.NewServer(webhooks.Options{
		State: g.store.State(), Barrier: g.store, Journal: g.store.Journal(), Pacer: g.pacer, Metrics: g.intake, Logger: g.logger.Named("webhooks"),
	})

	if err := g.listen(); err != nil {
		return nil, errors.Join(err, g.Close())
	}

	return g, nil
}

// openTimeout bounds the opening of the store: 100,000 objects take about two seconds.
const openTimeout = 2 * time.Minute

// State is the state as a client sees it: what is written through it passes the admission layer as the API's, so that
// names, ownership, `protect` and policy hold. Barrier says when it is durable.
func (g *Gateway) State() state.State { return state.WrapCore(g.admission.Guard(g.store.State())) }

// Barrier returns when everything that was written to the state before is durable.
func (g *Gateway) Barrier(ctx context.Context) error { return g.store.Barrier(ctx) }

// ID is the gateway's id, which marks what is ours on hypervisors.
func (g *Gateway) ID() string { return g.store.GatewayID() }

// HTTPAddr is where webhooks, health and metrics are served.
func (g *Gateway) HTTPAddr() string { return g.http.Addr().String() }

// Reload reads certificates again; secrets and tokens are read when they change, without it.
func (g *Gateway) Reload() error {
	if g.certificates == nil {
		return nil
	}

	return g.certificates.Reload()
}

// Close releases what New took. Run does it itself.
func (g *Gateway) Close() error {
	var errs []error

	if g.socket != nil {
		errs = append(errs, g.socket.Close())
	}

	g.pool.Close()

	return errors.Join(append(errs, g.store.Close())...)
}

// Run works until ctx ends. VMs are left as they are. An error is what made it impossible to go on.
func (g *Gateway) Run(ctx context.Context) error {
	// The first context ends what takes in and what acts; the second, a little later, the broker that the last statuses go
	// through.
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	group, working := errgroup.WithContext(working)

	group.Go(func() error { return g.runBroker(working) })
	group.Go(func() error { return g.supervise(working) })
	group.Go(func() error { return g.hooks.Run(working) })
	group.Go(func() error { return g.http.Run(working) })
	group.Go(func() error { return g.socket.Run(working) })

	err := group.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}

	if closeErr := g.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("error closing: %w", closeErr))
	}

	g.logger.Info("the gateway has ended; VMs are as they were")

	return err
}

// listen takes the HTTP address and the socket.
func (g *Gateway) listen() (err error) {
	if tls := g.cfg.HTTP.TLS; tls.Certificate != "" {
		if g.certificates, err = api.LoadCertificates(tls); err != nil {
			return err
		}
	}

	g.http, err = api.ListenHTTP(g.cfg.HTTP.Listen, api.HTTPOptions{
		Hooks: g.hooks.Handler(), Gather: g.registry, Certificates: g.certificates, Logger: g.logger,
		Ready: []api.Check{
			{Name: "store", Check: g.store.Healthy},
			{Name: "controllers", Check: g.runtime.get},
			{Name: "nats", Check: g.broker.get},
			{Name: "documents", Check: g.documentsReady},
		},
	})
	if err != nil {
		return err
	}

	if err := registerConnections(g.registry, g.http.Connections); err != nil {
		return err
	}

	g.socket, err = api.ListenSocket(g.operations())

	return err
}

// documentsReady returns why a documents directory is not in force.
func (g *Gateway) documentsReady() error {
	kind := resources.KindOf(resources.NewFileRoot("").Metadata())

	roots, err := g.store.State().List(context.Background(), kind.List())
	if err != nil {
		return fmt.Errorf("error listing documents directories: %w", err)
	}

	if len(roots.Items) < len(g.cfg.Documents) {
		return errors.New("not scanned yet")
	}

	return nil
}
