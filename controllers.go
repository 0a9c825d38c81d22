package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"

	"gateway/broker"
	"gateway/controllers/chain"
	"gateway/controllers/documents"
	"gateway/controllers/host"
	"gateway/controllers/image"
	"gateway/controllers/network"
	"gateway/controllers/placement"
	"gateway/controllers/removal"
	"gateway/controllers/resync"
	"gateway/controllers/retention"
	"gateway/controllers/trigger"
	"gateway/controllers/vm"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sources/domainevents"
	"gateway/sources/files"
	"gateway/sources/schedules"
	"gateway/sources/subscriptions"
	"gateway/sources/webhooks"
	"gateway/store"
)

// Deadlines of one reconcile, which COSI does not have. A VM's steps are bounded by the hypervisor's own deadlines, of
// which one reconcile has a handful; documents may have 10,000 objects in a file, created no faster than controllers
// keep up.
const (
	reconcileTimeout = 3 * time.Minute
	documentsTimeout = 10 * time.Minute
)

// destroyConcurrency is how many objects that are torn down are destroyed at once.
const destroyConcurrency = 4

// sharedMetrics are registered once, over all rebuilds of the runtime, and what sources and sinks find the broker by.
type sharedMetrics struct {
	chain      *chain.Metrics
	sinks      *sinks.Metrics
	connection *atomic.Pointer[natsConnection]
}

// natsConnection is the connection that runBroker made.
type natsConnection struct {
	connection *nats.Conn
	js         jetstream.JetStream
	// open reports whether the embedded server takes clients without credentials.
	open bool
}

func newSharedMetrics(registry prometheus.Registerer) sharedMetrics {
	return sharedMetrics{chain: chain.NewMetrics(registry), sinks: sinks.NewMetrics(registry), connection: &atomic.Pointer[natsConnection]{}}
}

// supervise runs the controllers until ctx ends.
func (g *Gateway) supervise(ctx context.Context) error {
	s := &supervisor{
		state: g.store.State(), build: g.controllers, logger: g.logger.Named("runtime"), rebuilds: g.rebuilds,
		started: func() { g.runtime.set(nil) },
		stopped: func() { g.runtime.set(errors.New("the controllers are not running")) },
	}

	return s.run(ctx)
}

// controllers builds all sources and controllers anew: for each runtime its own.
func (g *Gateway) controllers() ([]controller.Controller, []controller.QController, error) {
	journal, id := g.store.Journal(), g.store.GatewayID()
	registry := reusing{g.registry}

	fileSource, err := files.New(files.Options{Roots: g.cfg.Documents, Metrics: g.intake, Journal: journal, Pacer: g.pacer})
	if err != nil {
		return nil, nil, err
	}

	sources := []controller.Controller{
		fileSource,
		schedules.New(schedules.Options{Metrics: g.intake, Journal: journal}),
		webhooks.NewController(g.hooks),
		subscriptions.New(subscriptions.Options{
			Connection: g.natsForSubscriptions, Names: broker.Names{Prefix: g.cfg.NATS.Prefix}, State: g.store.State(), Barrier: g.store,
			Journal: journal, Pacer: g.pacer, Metrics: g.intake, Logger: g.logger.Named("subscriptions"),
		}),
		domainevents.New(domainevents.Options{
			Pool: g.pool, GatewayID: id, Metrics: g.intake, Journal: journal, Pacer: g.pacer,
		}),
		resync.New(resync.Options{Interval: g.cfg.Resync.Std()}),
	}

	declared := documents.New(documents.Options{
		Admission: g.admission, Journal: journal, Roots: fileSource.Roots(), Deletions: g.cfg.Deletions, Registry: registry,
		Pacer: store.NewPacer(0, resources.ControllerDocuments).Discount(g.shared.chain.Parked),
	})

	queued := []controller.QController{
		chain.Guard(declared, documentsTimeout, g.shared.chain),
		g.guard(trigger.New(trigger.Options{Journal: journal, Registry: registry})),
		g.guard(placement.New(placement.Options{
			Pool: g.pool, GatewayID: id, Holders: []resource.Finalizer{resources.ControllerNetwork}, HostsKnown: declared.HostsKnown(),
		})),
		g.guard(network.New(network.Options{Pool: g.pool, GatewayID: id, Barrier: g.store, Journal: journal})),
		g.guard(vm.New(vm.Options{
			Pool: g.pool, GatewayID: id, Barrier: g.store, Journal: journal, Registry: registry, OnReconcile: g.options.onReconcile,
			ReadSecret: g.cfg.Policy.ReadSecret,
		})),
		g.guard(image.New(image.Options{
			Pool: g.pool, Barrier: g.store, Journal: journal, Source: image.NewHTTPSource(g.cfg.Policy), Registry: registry,
		})),
		g.guard(host.New(host.Options{Pool: g.pool, GatewayID: id})),
		g.guard(retention.New(retention.Options{Pacer: g.pacer})),
	}

	for _, kind := range resources.RemovalKinds() {
		queued = append(queued, g.guard(removal.New(kind)))
	}

	for _, kind := range resources.DeclaredKinds() {
		queued = append(queued, destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](destroyConcurrency)))
	}

	return sources, queued, nil
}

func (g *Gateway) guard(c controller.QController) controller.QController {
	return chain.Guard(c, reconcileTimeout, g.shared.chain)
}

// natsForSubscriptions returns the connection, nil until there is one.
func (g *Gateway) natsForSubscriptions() *subscriptions.Connection {
	c := g.shared.connection.Load()
	if c == nil {
		return nil
	}

	return &subscriptions.Connection{NATS: c.connection, JetStream: c.js, Open: c.open}
}

// reusing is a registry that takes a metric again: rebuilt controllers register theirs anew, and the new ones replace the
// old.
type reusing struct{ *prometheus.Registry }

// Register implements prometheus.Registerer.
func (r reusing) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		r.Unregister(known.ExistingCollector)

		return r.Registry.Register(c)
	}

	return err
}

// MustRegister implements prometheus.Registerer.
func (r reusing) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			panic(err) // two metrics of one name are a fault of the program
		}
	}
}
