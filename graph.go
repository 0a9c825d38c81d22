package gateway

import (
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/sources/intake"
	"gateway/sources/webhooks"
	"gateway/store"
)

// Graph returns which source and controller reads and writes which resources. It builds them all on a state in memory and
// runs none.
func Graph() (*controller.DependencyGraph, error) {
	g := &Gateway{cfg: config.Default(), options: defaultOptions(), registry: prometheus.NewRegistry(), store: store.NewMemory("graph")}
	g.logger = g.options.logger
	g.intake = intake.NewMetrics(g.registry)
	g.shared = newSharedMetrics(g.registry)
	g.admission = store.NewAdmission(g.cfg.Policy, g.store.Journal())
	g.pacer = store.NewPacer(0)

	g.pool = hypervisor.NewPool(g.options.openers, g.store.GatewayID(), hypervisor.PoolOptions{Logger: g.logger, Registry: g.registry})
	defer g.pool.Close()

	g.hooks = webhooks.NewServer(webhooks.Options{
		State: g.store.State(), Barrier: g.store, Journal: g.store.Journal(), Pacer: g.pacer, Metrics: g.intake, Logger: g.logger,
	})

	s := &supervisor{state: g.store.State(), build: g.controllers, logger: zap.NewNop()}

	rt, err := s.runtime()
	if err != nil {
		return nil, err
	}

	graph, err := rt.GetDependencyGraph()
	if err != nil {
		return nil, fmt.Errorf("error reading the graph of controllers: %w", err)
	}

	return graph, nil
}
