package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/config"
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
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sinks/actions"
	"gateway/sinks/events"
	"gateway/sinks/status"
	"gateway/sources/domainevents"
	"gateway/sources/files"
	"gateway/sources/intake"
	"gateway/sources/schedules"
	"gateway/sources/subscriptions"
	"gateway/sources/webhooks"
	"gateway/store"
)

var names = broker.Names{Prefix: "gateway"}

// process is one generation of the gateway: what the composition root builds, without sockets.
type process struct {
	world *world
	gate  *gate

	config    *config.Config
	store     *store.SimulatedStore
	admission *store.Admission
	pacer     *store.Pacer
	pool      *hypervisor.Pool
	hooks     *webhooks.Server
	registry  *prometheus.Registry
	intake    *intake.Metrics
	guard     *chain.Metrics

	cancel context.CancelFunc
	group  sync.WaitGroup
}

func newProcess(w *world) (*process, error) {
	p := &process{world: w, gate: newGate(), config: config.Default(), registry: prometheus.NewRegistry(), pacer: store.NewPacer(0)}
	p.config.Documents = []string{w.root}
	p.config.Deletions.Free = 3

	var err error
	if p.store, err = w.disk.Open(context.Background(), gatewayID); err != nil {
		return nil, err
	}

	p.gate.tear = func() {
		p.store.Tear(func(queued int) int {
			w.mu.Lock()
			defer w.mu.Unlock()

			return w.dice.IntN(queued + 1)
		})
	}

	p.intake, p.guard = intake.NewMetrics(p.registry), chain.NewMetrics(p.registry)
	p.pacer.Discount(p.guard.Parked)
	p.admission = store.NewAdmission(p.config.Policy, p.store.Journal())
	p.admission.Hold("VM", resources.ControllerPlacement, resources.ControllerNetwork, resources.ControllerVM)
	p.pool = hypervisor.NewPool(map[string]hypervisor.Opener{"sim": p.gate.opener(sim.NewOpener(w.sim), w)}, gatewayID,
		hypervisor.PoolOptions{Logger: zap.NewNop(), Registry: p.registry})
	p.hooks = webhooks.NewServer(webhooks.Options{
		State: p.store.State(), Barrier: p.store, Journal: p.store.Journal(), Pacer: p.pacer, Metrics: p.intake, Logger: zap.NewNop(),
	})

	return p, nil
}

// run starts everything.
func (p *process) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel

	parts := p.sinks()
	parts["controllers"], parts["webhooks"] = p.supervise, p.hooks.Run

	for name, run := range parts {
		p.group.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				p.world.breakage("%s ended: %v", name, err)
			}
		})
	}
}

// sinks builds all sinks, on one connection.
func (p *process) sinks() map[string]func(context.Context) error {
	connection, metrics, logger := &publisher{p.world.edge, p.gate}, sinks.NewMetrics(p.registry), zap.NewNop()

	return map[string]func(context.Context) error{
		"status": status.New(status.Options{
			State: p.store.State(), Barrier: p.store, Publisher: connection, Names: names, GatewayID: gatewayID, Logger: logger,
			Metrics: metrics.For("status"),
		}).Run,
		"events": events.New(events.Options{
			Journal: p.store.Journal(), Barrier: p.store, Stream: connection, Names: names, GatewayID: gatewayID, Logger: logger,
			Metrics: metrics.For("events"),
		}).Run,
		"actions": actions.New(actions.Options{
			State: p.store.State(), Barrier: p.store, Journal: p.store.Journal(), Publisher: connection, Names: names, Logger: logger,
			Metrics: metrics.For("actions"),
		}).Run,
	}
}

// supervise runs runtimes until ctx ends, as the composition root does.
func (p *process) supervise(ctx context.Context) error {
	for {
		rt, err := runtime.NewRuntime(p.store.State(), zap.NewNop())
		if err != nil {
			return err
		}

		if err := p.register(rt); err != nil {
			return err
		}

		err = rt.Run(ctx)
		if ctx.Err() != nil {
			return nil
		}

		p.world.trace.add("the runtime ended: %v", err)

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// register builds all sources and controllers, as the composition root does.
func (p *process) register(rt *runtime.Runtime) error {
	journal := p.store.Journal()

	fileSource, err := files.New(files.Options{Roots: p.config.Documents, Metrics: p.intake, Journal: journal, Pacer: p.pacer, NoWatch: true})
	if err != nil {
		return err
	}

	for _, c := range []controller.Controller{
		fileSource,
		schedules.New(schedules.Options{Metrics: p.intake, Journal: journal}),
		webhooks.NewController(p.hooks),
		subscriptions.New(subscriptions.Options{
			Connection: p.connection, Names: names, State: p.store.State(), Barrier: p.store, Journal: journal, Pacer: p.pacer,
			Metrics: p.intake, Logger: zap.NewNop(),
		}),
		domainevents.New(domainevents.Options{Pool: p.pool, GatewayID: gatewayID, Metrics: p.intake, Journal: journal, Pacer: p.pacer}),
		resync.New(resync.Options{Interval: p.config.Resync.Std()}),
	} {
		if err := rt.RegisterController(c); err != nil {
			return fmt.Errorf("error registering %s: %w", c.Name(), err)
		}
	}

	fresh := prometheus.NewRegistry()

	declared := documents.New(documents.Options{
		Admission: p.admission, Journal: journal, Roots: fileSource.Roots(), Pacer: p.pacer, Deletions: p.config.Deletions, Registry: fresh,
	})

	for _, c := range []controller.QController{
		chain.Guard(declared, 10*time.Minute, p.guard),
		p.guarded(trigger.New(trigger.Options{Journal: journal, Registry: fresh})),
		p.guarded(placement.New(placement.Options{
			Pool: p.pool, GatewayID: gatewayID, Holders: []resource.Finalizer{resources.ControllerNetwork}, HostsKnown: declared.HostsKnown(),
		})),
		p.guarded(network.New(network.Options{Pool: p.pool, GatewayID: gatewayID, Barrier: p.store, Journal: journal})),
		p.guarded(vm.New(vm.Options{Pool: p.pool, GatewayID: gatewayID, Barrier: p.store, Journal: journal, Registry: fresh})),
		p.guarded(image.New(image.Options{
			Pool: p.pool, Barrier: p.store, Journal: journal, Source: depot{p.world}, Registry: fresh,
		})),
		p.guarded(host.New(host.Options{Pool: p.pool, GatewayID: gatewayID})),
		p.guarded(retention.New(retention.Options{})),
	} {
		if err := rt.RegisterQController(c); err != nil {
			return fmt.Errorf("error registering %s: %w", c.Name(), err)
		}
	}

	for _, kind := range resources.RemovalKinds() {
		if err := rt.RegisterQController(p.guarded(removal.New(kind))); err != nil {
			return err
		}
	}

	for _, kind := range resources.DeclaredKinds() {
		if err := rt.RegisterQController(destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](4))); err != nil {
			return err
		}
	}

	return nil
}

// connection is what subscriptions listen on.
func (p *process) connection() *subscriptions.Connection {
	js := &consumers{edge: p.world.edge, gate: p.gate}

	return &subscriptions.Connection{NATS: link{js}, JetStream: js}
}

func (p *process) guarded(c controller.QController) controller.QController {
	return chain.Guard(c, 3*time.Minute, p.guard)
}

// end is SIGTERM: what is under way comes to its end, and what is queued to the disk.
func (p *process) end() {
	p.cancel()
	p.group.Wait()
	p.pool.Close()

	if err := p.store.Close(); err != nil && p.gate.lives() {
		p.world.trace.add("the store did not close well: %v", err)
	}
}

// bury clears away what is left of a killed process.
func (p *process) bury() {
	p.cancel()
	p.pool.Close()
	p.group.Wait()
	_ = p.store.Close() // it is torn
}
