package vm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/host"
	"gateway/controllers/network"
	"gateway/controllers/placement"
	"gateway/controllers/vm"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

const chainHosts, chainVMs = 3, 12

// chainWorld is the whole chain on simulated hosts.
type chainWorld struct {
	t     *testing.T
	store store.Store
	sim   *sim.World
	rand  *rand.Rand
}

// generation runs runtime, pool and controllers for a while, as a process that is killed afterwards.
func (w *chainWorld) generation(d time.Duration, during func()) {
	w.t.Helper()

	pool := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(w.sim)}, gatewayID, hypervisor.PoolOptions{})

	rt, err := runtime.NewRuntime(w.store.State(), zap.NewNop())
	require.NoError(w.t, err)

	controllers := []controller.QController{
		host.New(host.Options{Pool: pool}),
		placement.New(placement.Options{Pool: pool, GatewayID: gatewayID, Holders: []resource.Finalizer{resources.ControllerNetwork}}),
		network.New(network.Options{Pool: pool, GatewayID: gatewayID, Barrier: w.store, Journal: w.store.Journal()}),
		vm.New(vm.Options{
			Pool: pool, GatewayID: gatewayID, Barrier: w.store, Journal: w.store.Journal(), Registry: prometheus.NewRegistry(),
		}),
	}
	for _, kind := range resources.DeclaredKinds() {
		controllers = append(controllers, destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](2)))
	}

	for _, c := range controllers {
		require.NoError(w.t, rt.RegisterQController(c))
	}

	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	for end := time.Now().Add(d); time.Now().Before(end); {
		during()
		time.Sleep(time.Duration(w.rand.IntN(2000)) * time.Millisecond)
	}

	cancel()
	require.NoError(w.t, <-done)
	pool.Close()
}

// change creates, changes, moves or deletes one VM.
func (w *chainWorld) change() {
	name := fmt.Sprintf("vm-%d", w.rand.IntN(chainVMs))

	if w.rand.IntN(3) == 0 {
		_, err := w.store.State().Teardown(w.t.Context(), resources.NewVMConfig(name).Metadata())
		require.True(w.t, err == nil || state.IsNotFoundError(err), "%v", err)

		return
	}

	_, err := safe.StateModifyWithResult(w.t.Context(), w.store.State(), resources.NewVMConfig(name), func(r *resources.VMConfig) error {
		if resources.UIDOf(r.Metadata()) == "" {
			resources.SetUID(r.Metadata(), fmt.Sprintf("uid-%d", w.rand.Uint64()))
		}

		resources.SetRevision(r.Metadata(), resources.RevisionOf(r.Metadata())+1)

		s := r.TypedSpec()
		s.Placement.Host = fmt.Sprintf("h%d", w.rand.IntN(chainHosts))
		s.Power = []string{resources.PowerRunning, resources.PowerRunning, resources.PowerPaused, resources.PowerStopped}[w.rand.IntN(4)]
		s.Interfaces = []resources.Interface{{Network: "lan"}}[:w.rand.IntN(2)]
		s.CPUs = 1 + w.rand.IntN(3)

		return nil
	})
	require.True(w.t, err == nil || state.IsPhaseConflictError(err), "%v", err)
}

func (w *chainWorld) list(kind string) []resource.Resource {
	w.t.Helper()

	k, ok := resources.KindByName(kind)
	require.True(w.t, ok)

	list, err := w.store.State().List(w.t.Context(), k.List())
	require.NoError(w.t, err)

	return list.Items
}

// requireConverged checks that every VM is where and how it is declared, and nowhere else.
func (w *chainWorld) requireConverged() {
	w.t.Helper()

	declared := w.list("VM")

	for _, r := range declared {
		spec, name := r.(*resources.VMConfig).TypedSpec(), r.Metadata().ID() //nolint:forcetypeassert // listed by its kind

		located := w.sim.Domains(uuid(name))
		require.Len(w.t, located, 1, "VM %s: %+v", name, w.list("VMStatus"))

		// A VM that has a host stays there when its pin changes, unless it is moved; it is where it was placed.
		placed, err := safe.StateGetByID[*resources.VMPlacement](w.t.Context(), w.store.State(), name)
		require.NoError(w.t, err)
		require.Equal(w.t, placed.TypedSpec().Host, located[0].Host)
		require.Equal(w.t, spec.Power, located[0].Domain.State, name)
		require.Equal(w.t, len(spec.Interfaces), len(located[0].Domain.Spec.Interfaces), name)
	}

	domains := 0
	for _, h := range w.sim.Hosts() {
		for i := range chainVMs {
			if _, ok := h.Domain(uuid(fmt.Sprintf("vm-%d", i))); ok {
				domains++
			}
		}
	}

	require.Len(w.t, declared, domains)
	require.Empty(w.t, w.sim.Violations())
}

// Random creates, changes, moves and deletes, with kills between and faults of the hypervisors: everything ends as it is
// declared, never in two places, and after the last delete nothing is left.
func TestTheChainConvergesFromAnywhere(t *testing.T) {
	t.Parallel()

	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { convergeFromAnywhere(t, seed) })
		})
	}
}

func convergeFromAnywhere(t *testing.T, seed uint64) {
	w := &chainWorld{t: t, store: store.NewMemory(gatewayID), sim: sim.NewWorld(), rand: rand.New(rand.NewPCG(seed, seed))}

	for i := range chainHosts {
		h := resources.NewHost(fmt.Sprintf("h%d", i))
		h.TypedSpec().URI = "sim://" + h.Metadata().ID()
		require.NoError(t, w.store.State().Create(t.Context(), h))
	}

	lan := resources.NewNetwork("lan")
	lan.TypedSpec().Mode, lan.TypedSpec().Subnet = resources.NetworkNAT, "10.7.0.0/24"
	require.NoError(t, w.store.State().Create(t.Context(), lan))

	faults := func(rate float64) {
		for i := range chainHosts {
			w.sim.Host(fmt.Sprintf("h%d", i)).SetFaults(sim.Faults{Seed: seed, Slow: rate, FailBefore: rate, FailAfter: rate, LoseAfter: rate / 4})
		}
	}

	for range 8 {
		faults(0.05)
		w.generation(time.Duration(10+w.rand.IntN(60))*time.Second, w.change)
	}

	faults(0)
	w.generation(15*time.Minute, func() {})
	w.requireConverged()

	w.generation(15*time.Minute, func() {
		for _, r := range w.list("VM") {
			_, err := w.store.State().Teardown(t.Context(), r.Metadata())
			require.True(t, err == nil || state.IsNotFoundError(err), "%v", err)
		}
	})

	for _, kind := range []string{"VM", "VMPlacement", "NetworkConfig", "VMStatus"} {
		require.Empty(t, w.list(kind), kind)
	}

	for _, h := range w.sim.Hosts() {
		for i := range chainVMs {
			_, left := h.Domain(uuid(fmt.Sprintf("vm-%d", i)))
			require.False(t, left)
		}
	}

	require.Empty(t, w.sim.Violations())
	require.NoError(t, w.sim.Close())
}
