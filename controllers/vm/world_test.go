package vm_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/vm"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

const gatewayID = "test"

// pool connects to simulated hosts at once, and again whenever a connection was lost and the host allows.
type pool struct {
	opener hypervisor.Opener

	mu      sync.Mutex // guards drivers
	drivers map[string]hypervisor.Driver
}

// limited gives each call the deadline that the real pool gives it.
type limited struct{ hypervisor.Driver }

func (l limited) Domain(ctx context.Context, uuid string) (hypervisor.Domain, error) {
	ctx, cancel := context.WithTimeout(ctx, hypervisor.ReadTimeout)
	defer cancel()

	d, err := l.Driver.Domain(ctx, uuid)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return d, fmt.Errorf("%w: no answer", hypervisor.ErrUnreachable)
	}

	return d, err
}

func (p *pool) Driver(host string) (hypervisor.Driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if d := p.drivers[host]; d != nil {
		if _, err := d.Info(context.Background()); err == nil {
			return limited{d}, nil
		}
	}

	d, err := p.opener(context.Background(), "sim://"+host, gatewayID)
	if err != nil {
		return nil, err
	}

	p.drivers[host] = d

	return limited{d}, nil
}

// Admit never refuses anybody: there are no limits here.
func (p *pool) Admit(string) error { return nil }

// world is a state, simulated hosts, and everybody but the vm controller.
type world struct {
	t          *testing.T
	store      store.Store
	sim        *sim.World
	pool       *pool
	registry   *prometheus.Registry
	reconciles atomic.Int64
	stop       func()
	sequence   uint64
	// secrets are files that documents may name.
	secrets map[string]string
}

// inWorld runs a test in a world of virtual time, with host a connected.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		s := sim.NewWorld()
		w := &world{
			t: t, store: store.NewMemory(gatewayID), sim: s, registry: prometheus.NewRegistry(),
			pool: &pool{opener: sim.NewOpener(s), drivers: map[string]hypervisor.Driver{}},
		}

		w.connect("a", true)
		w.start()
		test(t, w)
		w.stop()
		require.NoError(t, s.Close())
		require.Empty(t, s.Violations())
	})
}

// start builds runtime and controller, as the supervisor does after each failure.
func (w *world) start() {
	w.t.Helper()

	rt, err := runtime.NewRuntime(w.store.State(), zap.NewNop())
	require.NoError(w.t, err)
	require.NoError(w.t, rt.RegisterQController(vm.New(vm.Options{
		Pool: w.pool, Barrier: w.store, Journal: w.store.Journal(), GatewayID: gatewayID, Registry: w.registry,
		OnReconcile: func(string) { w.reconciles.Add(1) },
		ReadSecret: func(path string) ([]byte, error) {
			if text, ok := w.secrets[path]; ok {
				return []byte(text), nil
			}

			return nil, errors.New(path + " is not there")
		},
	})))

	kind, _ := resources.KindByName("VM")
	require.NoError(w.t, rt.RegisterQController(destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](4))))

	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-done)
	})
}

// restart kills the runtime where it is and builds it again.
func (w *world) restart() {
	w.stop()
	w.start()
}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// connect says that a host is connected, or not.
func (w *world) connect(host string, connected bool) {
	w.t.Helper()

	modify(w, resources.NewHostStatus(host), func(s *resources.HostStatusSpec) {
		s.Connected = connected
		if connected {
			s.Generation++
		}
	})
}

// modify creates or changes a resource.
func modify[T any, R interface {
	resource.Resource
	TypedSpec() *T
}](w *world, empty R, change func(*T)) {
	w.t.Helper()

	_, err := safe.StateModifyWithResult(w.t.Context(), w.store.State(), empty, func(r R) error {
		change(r.TypedSpec())

		return nil
	})
	require.NoError(w.t, err)
}

// declare writes a VM as admission does, with a new revision.
func (w *world) declare(name string, change func(*resources.VMConfigSpec)) {
	w.t.Helper()

	_, err := safe.StateModifyWithResult(w.t.Context(), w.store.State(), resources.NewVMConfig(name), func(r *resources.VMConfig) error {
		if resources.UIDOf(r.Metadata()) == "" {
			resources.SetUID(r.Metadata(), "uid-of-"+name)
		}

		resources.SetRevision(r.Metadata(), resources.RevisionOf(r.Metadata())+1)
		change(r.TypedSpec())

		return nil
	})
	require.NoError(w.t, err)
}

// place puts a VM on a host, with the network of it ready, as placement and network do.
func (w *world) place(name, host string, bindings ...resources.NetworkBinding) {
	w.t.Helper()

	p := resources.NewVMPlacement(name)
	p.Metadata().Labels().Set(resources.LabelHost, host)
	*p.TypedSpec() = resources.VMPlacementSpec{Host: host, Reason: resources.ReasonPlaced}
	require.NoError(w.t, w.store.State().Create(w.t.Context(), p))

	n := resources.NewNetworkConfig(name)
	*n.TypedSpec() = resources.NetworkConfigSpec{Host: host, Ready: true, Interfaces: bindings, Reason: resources.ReasonNetworkReady}
	require.NoError(w.t, w.store.State().Create(w.t.Context(), n))
}

// make declares and places a VM with one disk and waits until it settled.
func (w *world) make(name string, change func(*resources.VMConfigSpec)) {
	w.t.Helper()

	w.declare(name, func(s *resources.VMConfigSpec) {
		s.Disks = []resources.Disk{{Name: "root", Size: resources.GiB, OnDelete: resources.OnDeleteKeep}}

		if change != nil {
			change(s)
		}
	})
	w.place(name, "a")
	w.pass(time.Second)
}

// nudge is an event of the VM's domain: look again.
func (w *world) nudge(name string) {
	w.t.Helper()
	w.happen(name)
	w.pass(10 * time.Millisecond)
}

// happen tells of an event of a domain, and does not wait.
func (w *world) happen(name string) {
	w.t.Helper()

	w.sequence++
	modify(w, resources.NewDomainEvent(name), func(s *resources.DomainEventSpec) {
		s.VM = name
		s.Event = resources.EventAttributes{
			ID: fmt.Sprintf("event-%d", w.sequence), Source: resources.SourceDomain, Sequence: w.sequence, Received: time.Now(),
		}
	})
}

// teardown starts the teardown of a resource.
func (w *world) teardown(r resource.Resource) {
	w.t.Helper()

	_, err := w.store.State().Teardown(w.t.Context(), r.Metadata())
	require.NoError(w.t, err)
	w.pass(10 * time.Millisecond)
}

// get returns a resource as it is now; nil where there is none.
func get[R resource.Resource](w *world, ptr R) (none R) {
	w.t.Helper()

	found, err := safe.StateGet[R](w.t.Context(), w.store.State(), ptr.Metadata())
	if state.IsNotFoundError(err) {
		return none
	}

	require.NoError(w.t, err)

	return found
}

func (w *world) status(name string) *resources.VMStatusSpec {
	w.t.Helper()

	s := get(w, resources.NewVMStatus(name))
	require.NotNil(w.t, s, "VM %s has no status", name)

	return s.TypedSpec()
}

// reason returns the reason of the condition Converged, which has to have the status.
func (w *world) reason(name string, status resources.ConditionStatus) string {
	w.t.Helper()

	c := resources.FindCondition(w.status(name).Conditions, resources.ConditionConverged)
	require.NotNil(w.t, c)
	require.Equal(w.t, status, c.Status, "%+v", *c)

	return c.Reason
}

func (w *world) host() *sim.Host { return w.sim.Host("a") }

func uuid(name string) string { return hypervisor.DomainUUID(gatewayID, name) }

// domain returns the VM's domain on host a.
func (w *world) domain(name string) hypervisor.Domain {
	w.t.Helper()

	d, ok := w.host().Domain(uuid(name))
	require.True(w.t, ok, "VM %s has no domain", name)

	return d
}

// steps returns what was done to the VM's host, in order.
func (w *world) steps(name string) (steps []string) {
	w.t.Helper()

	for _, e := range w.stepEntries(name) {
		steps = append(steps, e.Message)
	}

	return steps
}

// lastStep is the journal's entry of the newest of them.
func (w *world) lastStep(name string) store.Entry {
	w.t.Helper()

	entries := w.stepEntries(name)
	require.NotEmpty(w.t, entries)

	last := entries[0]
	for _, e := range entries {
		if e.Time.After(last.Time) {
			last = e
		}
	}

	return last
}

func (w *world) stepEntries(name string) []store.Entry {
	w.t.Helper()

	entries, err := w.store.Journal().Query(w.t.Context(), store.Query{Classes: []store.Class{store.ClassHypervisor}, Object: "VM/" + name})
	require.NoError(w.t, err)

	return entries
}

// refuse is an opener that never gets a connection.
func refuse(context.Context, string, string) (hypervisor.Driver, error) {
	return nil, hypervisor.ErrUnreachable
}
