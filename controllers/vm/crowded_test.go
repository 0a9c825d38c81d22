package vm_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/host"
	"gateway/controllers/vm"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// inCrowd runs a test in a world whose hosts, h0 to h3, are behind the pool of a real process, with its deadlines and limits.
func inCrowd(t *testing.T, test func(w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		s := sim.NewWorld()
		w := &world{t: t, store: store.NewMemory(gatewayID), sim: s, registry: prometheus.NewRegistry()}
		behind := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(s)}, gatewayID, hypervisor.PoolOptions{})

		for i := range 4 {
			declared := resources.NewHost(fmt.Sprintf("h%d", i))
			declared.TypedSpec().URI = "sim://" + declared.Metadata().ID()
			require.NoError(t, w.store.State().Create(t.Context(), declared))
		}

		rt, err := runtime.NewRuntime(w.store.State(), zap.NewNop())
		require.NoError(t, err)
		require.NoError(t, rt.RegisterQController(vm.New(vm.Options{
			Pool: behind, Barrier: w.store, Journal: w.store.Journal(), GatewayID: gatewayID, Registry: w.registry,
		})))
		require.NoError(t, rt.RegisterQController(host.New(host.Options{Pool: behind, GatewayID: gatewayID})))

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		go func() { done <- rt.Run(ctx) }()

		defer func() {
			cancel()
			require.NoError(t, <-done)
			behind.Close()
			require.NoError(t, s.Close())
			require.Empty(t, s.Violations())
		}()

		w.pass(time.Second)
		test(w)
	})
}

// appear makes a VM on a host.
func (w *world) appear(name, host string) {
	w.t.Helper()
	w.declare(name, func(s *resources.VMConfigSpec) { s.Memory = 128 * resources.MiB })
	w.place(name, host)
}

// runs reports whether a VM runs.
func (w *world) runs(name string) bool {
	w.t.Helper()

	s := get(w, resources.NewVMStatus(name))

	return s != nil && s.TypedSpec().State == resources.StateRunning
}

// A host that hangs, or whose every start takes long, takes no time of VMs on other hosts, however many VMs it has itself.
func TestCaseV65ManyVMsOfASlowHostDelayNoOther(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"no call is answered":                   {Kind: sim.Hang},
		"no read is answered":                   {Kind: sim.Hang, Call: "Domain"},
		"no start is answered":                  {Kind: sim.Hang, Call: "StartDomain"},
		"starts take twenty seconds":            {Kind: sim.Slow, Call: "StartDomain", Delay: 20 * time.Second},
		"reads take three seconds":              {Kind: sim.Slow, Call: "Domain", Delay: 3 * time.Second},
		"calls go on when the connection ended": {Kind: sim.Stuck},
	} {
		t.Run(name, func(t *testing.T) {
			inCrowd(t, func(w *world) {
				mend := w.sim.Host("h0").Inject(fault)

				for i := range 150 {
					w.appear(fmt.Sprintf("slow-%d", i), "h0")
				}

				// Nobody knows yet that the host does not answer.
				w.appear("first", "h1")
				w.pass(hypervisor.Patience + time.Millisecond)
				require.True(t, w.runs("first"))

				// Every 1,010 ms one more for each host, and nobody waits, in the half minute in which calls fail and are tried again.
				for i := range 30 {
					for h := range 4 {
						w.appear(fmt.Sprintf("vm-%d-%d", i, h), fmt.Sprintf("h%d", h))
					}

					w.pass(time.Millisecond)

					for h := 1; h < 4; h++ {
						name := fmt.Sprintf("vm-%d-%d", i, h)
						require.True(t, w.runs(name), "%s, %d ms after the host went silent", name, i*1010)
					}

					w.pass(1009 * time.Millisecond)
				}

				// What could not be done meanwhile is done.
				mend()
				w.pass(5 * time.Minute)

				for i := range 150 {
					require.True(t, w.runs(fmt.Sprintf("slow-%d", i)), "%+v", w.status(fmt.Sprintf("slow-%d", i)))
				}
			})
		})
	}
}
