package host_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/host"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// world is a state, simulated hosts and the pool, with the controller running on them.
type world struct {
	t     *testing.T
	state state.State
	sim   *sim.World
	pool  *hypervisor.Pool
	stop  func()
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, state: store.NewMemory("test").State(), sim: sim.NewWorld()}
		w.start()
		defer func() { w.stop() }()
		test(t, w)
	})
}

// start is the start of a process: a pool without connections, and controllers.
func (w *world) start() {
	w.t.Helper()

	w.pool = hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(w.sim)}, "test", hypervisor.PoolOptions{})

	rt, err := runtime.NewRuntime(w.state, zap.NewNop())
	require.NoError(w.t, err)
	require.NoError(w.t, rt.RegisterQController(host.New(host.Options{Pool: w.pool, GatewayID: "test"})))

	kind, _ := resources.KindByName("Host")
	require.NoError(w.t, rt.RegisterQController(destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](1))))

	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	w.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-done)
		w.pool.Close()
	})
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) declare(change func(*resources.HostSpec)) {
	w.t.Helper()

	_, err := safe.StateModifyWithResult(w.t.Context(), w.state, resources.NewHost("a"), func(r *resources.Host) error {
		resources.SetUID(r.Metadata(), "uid-of-a")
		resources.SetRevision(r.Metadata(), resources.RevisionOf(r.Metadata())+1)
		r.TypedSpec().URI = "sim://a"
		change(r.TypedSpec())

		return nil
	})
	require.NoError(w.t, err)
	w.pass(100 * time.Millisecond)
}

func nothing(*resources.HostSpec) {}

// get returns a resource; nil where there is none.
func get[R resource.Resource](w *world, ptr R) (none R) {
	w.t.Helper()

	found, err := safe.StateGet[R](w.t.Context(), w.state, ptr.Metadata())
	if state.IsNotFoundError(err) {
		return none
	}

	require.NoError(w.t, err)

	return found
}

func (w *world) status() *resources.HostStatusSpec {
	w.t.Helper()

	s := get(w, resources.NewHostStatus("a"))
	require.NotNil(w.t, s)

	return s.TypedSpec()
}

func TestHostIsConnectedAndDescribed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.declare(func(s *resources.HostSpec) { s.Capacity.CPUs = 8 })

		s := w.status()
		require.True(t, s.Connected)
		require.Equal(t, "SIM", s.Driver)
		require.Equal(t, 8, s.Capacity.CPUs, "what the document says")
		require.Equal(t, resources.Size(sim.DefaultMemory), s.Capacity.Memory, "what the hypervisor reports")
		require.EqualValues(t, 1, s.Generation)
		require.Equal(t, "uid-of-a", s.UID)

		c := resources.FindCondition(s.Conditions, resources.ConditionConnected)
		require.Equal(t, resources.ConditionTrue, c.Status)

		w.declare(func(s *resources.HostSpec) { s.Drain = true })
		require.True(t, w.status().Draining)
		require.EqualValues(t, 2, w.status().ObservedRevision)

		version := get(w, resources.NewHostStatus("a")).Metadata().Version()
		w.pass(time.Hour)
		require.Equal(t, version, get(w, resources.NewHostStatus("a")).Metadata().Version(), "nothing changes by itself")
	})
}

func TestLostConnectionIsSeenAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.declare(nothing)
		w.sim.Host("a").Kill(false)
		w.pass(pingInterval + time.Second)

		require.False(t, w.status().Connected)
		require.NotEmpty(t, w.status().LastError)
		require.Equal(t, resources.Size(sim.DefaultMemory), w.status().Capacity.Memory, "what it said of itself stays")

		w.pass(time.Minute) // the first attempt says something else than the loss did

		version := get(w, resources.NewHostStatus("a")).Metadata().Version()
		w.pass(time.Hour)
		require.Equal(t, version, get(w, resources.NewHostStatus("a")).Metadata().Version(), "further attempts are no news")

		w.sim.Host("a").Revive()
		w.pass(time.Minute)
		require.True(t, w.status().Connected)
		require.Empty(t, w.status().LastError)
		require.EqualValues(t, 2, w.status().Generation)
	})
}

// pingInterval is how often the pool asks a connection whether it still is one.
const pingInterval = 10 * time.Second

func TestRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.declare(nothing)
		w.stop()

		// While the first attempt hangs, the host is as it was; afterwards its VMs are told that it is another connection.
		remove := w.sim.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "Open", Delay: 5 * time.Second})
		w.start()
		w.pass(4 * time.Second)
		require.True(t, w.status().Connected)
		require.EqualValues(t, 1, w.status().Generation)

		w.pass(2 * time.Second)
		require.True(t, w.status().Connected)
		require.EqualValues(t, 2, w.status().Generation)
		remove()
		w.stop()

		// A host that is gone is seen to be by the first attempt that fails.
		w.sim.Host("a").Kill(false)
		w.start()
		w.pass(time.Second)
		require.False(t, w.status().Connected)
	})
}

func TestTeardownWaitsForWhoUsesTheHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.declare(nothing)

		ptr := resources.NewHost("a").Metadata()
		require.NoError(t, w.state.AddFinalizer(t.Context(), ptr, resources.ControllerPlacement))

		_, err := w.state.Teardown(t.Context(), ptr)
		require.NoError(t, err)
		w.pass(time.Minute)

		_, err = w.pool.Driver("a")
		require.NoError(t, err, "the VMs on it are taken apart through the connection")

		w.stop()
		w.start()
		w.pass(time.Second)
		require.NoError(t, driverError(w), "which a new process makes anew")

		w.sim.Host("a").Kill(false)
		w.pass(time.Minute)
		require.False(t, w.status().Connected)
		w.sim.Host("a").Revive()
		w.pass(time.Minute)
		require.True(t, w.status().Connected)

		number := get(w, resources.NewHostStatus("a")).Metadata().Version().Value()
		require.NoError(t, w.state.RemoveFinalizer(t.Context(), ptr, resources.ControllerPlacement))
		w.pass(time.Second)

		require.Nil(t, get(w, resources.NewHost("a")))
		require.Nil(t, get(w, resources.NewHostStatus("a")))
		require.Nil(t, get(w, resources.NewResync("connection.a")), "what woke it is gone too")
		require.ErrorIs(t, driverError(w), hypervisor.ErrUnreachable)

		stone := get(w, resources.NewTombstone("uid-of-a"))
		require.NotNil(t, stone)
		require.Equal(t, "Host", stone.TypedSpec().Kind)
		require.Equal(t, number+1, stone.TypedSpec().Number)
	})
}

func driverError(w *world) error {
	_, err := w.pool.Driver("a")

	return err
}

func TestResyncOfHosts(t *testing.T) {
	for name, target := range map[string]*resources.Target{
		"by name":     {Kind: "Host", Name: "a"},
		"by selector": {Kind: "Host", Selector: &resources.Selector{}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.declare(nothing)

				resync := resources.NewResync("sync")
				resync.TypedSpec().Target = target
				require.NoError(t, w.state.Destroy(t.Context(), resources.NewHostStatus("a").Metadata(), state.WithDestroyOwner(resources.ControllerHost)))
				require.NoError(t, w.state.Create(t.Context(), resync))
				w.pass(time.Millisecond)

				require.True(t, w.status().Connected)
			})
		})
	}
}

// place puts a VM on host a, as placement does.
func (w *world) place(vm, reason, message string) {
	w.t.Helper()

	p := resources.NewVMPlacement(vm)
	p.Metadata().Labels().Set(resources.LabelHost, "a")
	*p.TypedSpec() = resources.VMPlacementSpec{Host: "a", Reason: reason, Message: message}
	require.NoError(w.t, w.state.Create(w.t.Context(), p))
}

func TestADrainSaysHowFarItIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.place("db", resources.ReasonUnschedulable, "stays on host a, which is being drained: its disks are there")
		w.place("pinned", resources.ReasonPlaced, "")
		w.place("web", resources.ReasonMoving, "")
		w.declare(nothing)
		require.Nil(t, w.status().Drain)

		w.declare(func(s *resources.HostSpec) { s.Drain = true })

		stays := []resources.VMReason{
			{VM: "db", Reason: "stays on host a, which is being drained: its disks are there"},
			{VM: "pinned", Reason: "it is pinned to the host"},
		}
		require.Equal(t, &resources.DrainStatus{Left: 3, Stays: stays}, w.status().Drain)

		require.NoError(t, w.state.Destroy(t.Context(), resources.NewVMPlacement("web").Metadata()))
		w.pass(time.Millisecond)
		require.Equal(t, &resources.DrainStatus{Left: 2, Stays: stays}, w.status().Drain)

		w.declare(func(s *resources.HostSpec) { s.Drain = false })
		require.Nil(t, w.status().Drain)
	})
}

func TestAHostSaysWhichOfOurDomainsHaveNoPlaceOnIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		domain := func(name, gateway string) hypervisor.Domain {
			return hypervisor.Domain{Name: name, UUID: hypervisor.DomainUUID(gateway, name), Gateway: gateway, VM: name}
		}

		for _, d := range []hypervisor.Domain{domain("here", "test"), domain("gone", "test"), domain("theirs", "other")} {
			require.NoError(t, w.sim.Host("a").AddDomain(d))
		}

		w.place("here", resources.ReasonPlaced, "")
		w.declare(nothing)
		w.pass(time.Second)

		gone := domain("gone", "test").UUID
		require.Equal(t, []string{"gone (" + gone + ", stopped): there is no VM gone"}, w.status().Leftovers)

		require.True(t, w.sim.Host("a").Undefine(gone))
		w.pass(time.Minute)
		require.Empty(t, w.status().Leftovers)

		// Without a reason nobody asks for the list again; what is given up by force is one.
		require.NoError(t, w.sim.Host("a").AddDomain(domain("gone", "test")))
		w.pass(time.Hour)
		require.Empty(t, w.status().Leftovers)

		_, err := w.state.UpdateWithConflicts(t.Context(), resources.NewHost("a").Metadata(), func(r resource.Resource) error {
			resources.SetSurvey(r.Metadata(), "api-1")

			return nil
		})
		require.NoError(t, err)
		w.pass(time.Second)
		require.Len(t, w.status().Leftovers, 1)
	})
}

func TestAHostThatWasGivenUpIsLetGoOfAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.declare(nothing)

		ptr := resources.NewHost("a").Metadata()
		require.NoError(t, w.state.AddFinalizer(t.Context(), ptr, resources.ControllerPlacement))

		_, err := w.state.UpdateWithConflicts(t.Context(), ptr, func(r resource.Resource) error {
			resources.SetAbandoned(r.Metadata(), "api-1")
			r.Metadata().SetPhase(resource.PhaseTearingDown)

			return nil
		})
		require.NoError(t, err)
		w.pass(time.Second)
		require.ErrorIs(t, driverError(w), hypervisor.ErrUnreachable, "nothing is done to it any more")
		require.False(t, w.status().Connected)
		require.Equal(t, "the host was given up", w.status().LastError)
	})
}

func TestAHostSaysHowLongItWaitsBetweenAttempts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sim.Host("a").Kill(false)
		w.declare(nothing)
		require.Equal(t, resources.Duration(time.Second), w.status().RetryAfter)
		w.pass(2 * time.Minute)
		require.Equal(t, resources.Duration(25*time.Second), w.status().RetryAfter)

		w.sim.Host("a").Revive()
		w.pass(time.Minute)
		require.Zero(t, w.status().RetryAfter)
	})
}
