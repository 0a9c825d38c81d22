package gateway

import (
	"context"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go/jetstream"

	"gateway/api"
	"gateway/api/requests"
	"gateway/broker"
	"gateway/controllers/placement"
	"gateway/controllers/vm"
)

// operations are what the operators' socket and the NATS service work on.
func (g *Gateway) operations() api.SocketOptions {
	return api.SocketOptions{
		DataDir: g.cfg.DataDir, Store: g.store, Admission: g.admission, Pacer: g.pacer, Logger: g.logger.Named("api"), Version: g.options.version,
		Documents: g.cfg.Documents, Deletions: g.cfg.Deletions, DrainCheck: g.drainCheck, Hypervisors: g.pool,
		Planner: vm.NewPlanner(g.store.State(), g.pool, g.store.GatewayID()),
		Broker:  &broker.Reader{JetStream: g.jetStream, Names: broker.Names{Prefix: g.cfg.NATS.Prefix}},
	}
}

// drainCheck says what a drain of a host would do with its VMs.
func (g *Gateway) drainCheck(ctx context.Context, host string) ([]api.DrainedVM, error) {
	forecasts, err := placement.Drain(ctx, uncached{g.store.State()}, host)
	vms := make([]api.DrainedVM, len(forecasts))

	for i, f := range forecasts {
		vms[i] = api.DrainedVM{VM: f.VM, To: f.To, Obstacle: f.Obstacle}
	}

	return vms, err
}

// uncached reads the state as controllers do past their cache.
type uncached struct{ state.State }

// GetUncached implements controller.UncachedReader.
func (u uncached) GetUncached(ctx context.Context, ptr resource.Pointer, opts ...state.GetOption) (resource.Resource, error) {
	return u.Get(ctx, ptr, opts...)
}

// ListUncached implements controller.UncachedReader.
func (u uncached) ListUncached(ctx context.Context, kind resource.Kind, opts ...state.ListOption) (resource.List, error) {
	return u.List(ctx, kind, opts...)
}

// jetStream is the connection that runBroker made, nil until it did.
func (g *Gateway) jetStream() jetstream.JetStream {
	if c := g.shared.connection.Load(); c != nil {
		return c.js
	}

	return nil
}

// requests is the NATS service, on the connection that runBroker made.
func (g *Gateway) requests() *requests.Service {
	nats := g.shared.connection.Load()

	return requests.New(requests.Options{
		Connection: nats.connection, Operations: api.NewOperations(g.operations()), Names: broker.Names{Prefix: g.cfg.NATS.Prefix},
		GatewayID: g.ID(), Version: g.options.version, Open: nats.open, Logger: g.logger.Named("requests"),
	})
}
