package hypervisor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// inBubble runs a test in virtual time, with a world and a pool on it.
func inBubble(t *testing.T, options hypervisor.PoolOptions, test func(t *testing.T, w *sim.World, p *hypervisor.Pool)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld()
		p := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(w)}, "home", options)

		defer p.Close()

		test(t, w, p)
	})
}

// connect adds a host and returns its driver.
func connect(t *testing.T, p *hypervisor.Pool, host, uri string) hypervisor.Driver {
	t.Helper()

	p.Ensure(host, uri)
	synctest.Wait()

	d, err := p.Driver(host)
	require.NoError(t, err)

	return d
}

// vm defines a domain on a host and returns its UUID.
func vm(t *testing.T, d hypervisor.Driver, name string) string {
	t.Helper()

	spec := hypervisor.DomainSpec{Name: name, VM: name, UUID: hypervisor.DomainUUID("home", name), CPUs: 1, Memory: resources.GiB}
	_, err := d.DefineDomain(t.Context(), spec)
	require.NoError(t, err)

	return spec.UUID
}

func TestPoolConnectsInTheBackground(t *testing.T) {
	registry := prometheus.NewRegistry()

	inBubble(t, hypervisor.PoolOptions{Registry: registry}, func(t *testing.T, _ *sim.World, p *hypervisor.Pool) {
		_, err := p.Driver("a")
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.Zero(t, p.Status("a"))

		var seen atomic.Int32

		unregister := p.Watch(func(host string) {
			require.Equal(t, "a", host)
			seen.Add(1)
		})

		d := connect(t, p, "a", "sim://a")
		vm(t, d, "web")

		status := p.Status("a")
		require.True(t, status.Connected)
		require.Equal(t, int64(1), status.Generation)
		require.Equal(t, "SIM", status.Info.Driver)
		require.Equal(t, sim.DefaultCPUs, status.Info.Capacity.CPUs)
		require.Empty(t, status.LastError)
		require.EqualValues(t, 1, seen.Load())

		for range 3 {
			p.Ensure("a", "sim://a")
			time.Sleep(time.Minute)
		}

		require.Equal(t, status, p.Status("a"), "the same URI keeps the connection")
		require.EqualValues(t, 1, seen.Load())

		families, err := registry.Gather()
		require.NoError(t, err)
		require.Len(t, families, 4)
		require.Equal(t, 1, count(t, registry, "gateway_host_connected"))

		unregister()
		p.Remove("a")
		p.Remove("a")
		require.Zero(t, p.Status("a"))
		require.Zero(t, count(t, registry, "gateway_host_connected"))
		require.EqualValues(t, 1, seen.Load())
	})
}

// count returns how many series a metric has.
func count(t *testing.T, registry *prometheus.Registry, name string) int {
	t.Helper()

	families, err := registry.Gather()
	require.NoError(t, err)

	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}

	return 0
}

// losses are the ways in which a connection ends.
var losses = map[string]func(t *testing.T, h *sim.Host, d hypervisor.Driver){
	"that a call sees": func(t *testing.T, h *sim.Host, d hypervisor.Driver) {
		h.DropConnections()

		_, err := d.Domains(t.Context())
		require.ErrorIs(t, err, hypervisor.ErrConnectionLost)
		synctest.Wait()
	},
	"that the events see": func(t *testing.T, h *sim.Host, d hypervisor.Driver) {
		ended := make(chan error, 1)
		go func() { ended <- d.Events(t.Context(), func() {}, func(hypervisor.Event) {}) }()

		synctest.Wait()
		h.DropConnections()
		synctest.Wait()
		require.ErrorIs(t, <-ended, hypervisor.ErrConnectionLost)
	},
	"that only the ping sees": func(_ *testing.T, h *sim.Host, _ hypervisor.Driver) {
		h.DropConnections()
		time.Sleep(10 * time.Second)
		synctest.Wait()
	},
	"of a host that hangs": func(_ *testing.T, h *sim.Host, _ hypervisor.Driver) {
		remove := h.Inject(sim.Fault{Kind: sim.Stuck, Call: "Info"})

		// One question without an answer is a daemon that is busy; two are one that is gone.
		time.Sleep(20*time.Second + hypervisor.ReadTimeout)
		synctest.Wait()
		remove()
	},
}

func TestPoolReconnectsAfterALoss(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
				d := connect(t, p, "a", "sim://a")
				uuid := vm(t, d, "web")
				require.NoError(t, d.StartDomain(t.Context(), uuid, false))

				changes := w.Changes()

				lose(t, w.Host("a"), d)

				status := p.Status("a")
				require.False(t, status.Connected)
				require.Equal(t, int64(1), status.Generation)
				require.NotEmpty(t, status.LastError)

				_, err := p.Driver("a")
				require.ErrorIs(t, err, hypervisor.ErrUnreachable)

				_, err = d.Domain(t.Context(), uuid)
				require.ErrorIs(t, err, hypervisor.ErrConnectionLost)

				time.Sleep(2 * time.Second)

				status = p.Status("a")
				require.True(t, status.Connected)
				require.Equal(t, int64(2), status.Generation)

				d, err = p.Driver("a")
				require.NoError(t, err)

				seen, err := d.Domain(t.Context(), uuid)
				require.NoError(t, err)
				require.Equal(t, resources.StateRunning, seen.State)
				require.Equal(t, changes, w.Changes(), "a lost connection changes nothing on the host")
			})
		})
	}
}

func TestPoolKeepsAConnectionThatIsBusyForAMoment(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		connect(t, p, "a", "sim://a")
		time.Sleep(time.Second) // between two questions

		for range 5 {
			remove := w.Host("a").Inject(sim.Fault{Kind: sim.Stuck, Call: "Info"})

			time.Sleep(10*time.Second + hypervisor.ReadTimeout)
			remove()
			time.Sleep(5 * time.Second)
			require.True(t, p.Status("a").Connected)
		}

		require.Equal(t, int64(1), p.Status("a").Generation)
	})
}

func TestPoolKeepsTryingWithBackoff(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		w.Host("a").Kill(false)
		p.Ensure("a", "sim://a")
		time.Sleep(10 * time.Minute)

		attempts := w.Calls()["Open"]
		require.GreaterOrEqual(t, attempts, int64(600/30))
		require.LessOrEqual(t, attempts, int64(5+600/25))
		require.Contains(t, p.Status("a").LastError, "the host is down")

		w.Host("a").Revive()
		time.Sleep(30 * time.Second)
		require.True(t, p.Status("a").Connected)
	})
}

func TestPoolFindsALocalDaemonSoonAfterItsRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hypervisor.NewPool(map[string]hypervisor.Opener{
			"qemu": func(context.Context, string, string) (hypervisor.Driver, error) {
				return nil, hypervisor.ErrUnreachable
			},
		}, "test", hypervisor.PoolOptions{})
		defer p.Close()

		p.Ensure("near", "qemu+unix:///system")
		p.Ensure("far", "qemu+ssh://root@far/system")
		time.Sleep(10 * time.Minute)
		require.Equal(t, 3*time.Second, p.Status("near").RetryAfter)
		require.Equal(t, 25*time.Second, p.Status("far").RetryAfter)
	})
}

func TestPoolReplacesTheConnectionOfAnotherURI(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		old := connect(t, p, "h", "sim://a")
		vm(t, old, "web")

		var told atomic.Int32

		p.Watch(func(string) { told.Add(1) })

		next := connect(t, p, "h", "sim://b")
		require.Equal(t, "b", p.Status("h").Info.Hostname)
		require.Equal(t, int64(2), p.Status("h").Generation)
		require.EqualValues(t, 2, told.Load(), "it went and it came")

		all, err := next.Domains(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)

		_, err = old.Domains(t.Context())
		require.ErrorIs(t, err, hypervisor.ErrConnectionLost)

		p.Remove("h")
		connect(t, p, "h", "sim://a")
		require.Equal(t, int64(3), p.Status("h").Generation, "it never goes back")
		require.Len(t, w.Hosts(), 2)
	})
}

func TestPoolNamesASchemeWithoutADriver(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, _ *sim.World, p *hypervisor.Pool) {
		p.Ensure("a", "esx://somewhere")
		p.Ensure("b", "sim+unix://b") // goes to the driver of sim, which refuses it
		synctest.Wait()

		require.Contains(t, p.Status("a").LastError, `no driver for the scheme "esx"`)
		require.Contains(t, p.Status("b").LastError, "a simulated host is sim://NAME")
	})
}

func TestPoolAbandonsAnOpenerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			calls, closed atomic.Int32
			release       = make(chan struct{})
			world         = sim.NewWorld()
		)

		// The opener does not heed its context, as libvirt's does not.
		hanging := func(_ context.Context, uri, gateway string) (hypervisor.Driver, error) {
			calls.Add(1)
			<-release

			d, err := sim.NewOpener(world)(context.Background(), uri, gateway)

			return &closing{Driver: d, closed: &closed}, err
		}
		p := hypervisor.NewPool(map[string]hypervisor.Opener{"hang": hanging, "sim": sim.NewOpener(world)}, "home", hypervisor.PoolOptions{})
		defer p.Close()

		p.Ensure("a", "hang://a")
		connect(t, p, "b", "sim://b")

		time.Sleep(45*time.Second + time.Millisecond)
		require.Contains(t, p.Status("a").LastError, "no answer in time")

		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 3, calls.Load(), "attempts that hang are bounded")

		// Another URI is not held up by it.
		p.Ensure("a", "sim://a")
		synctest.Wait()
		require.True(t, p.Status("a").Connected)

		close(release)
		synctest.Wait()
		require.EqualValues(t, 0, closed.Load(), "hang://a is no URI of the simulator: nothing to close")
	})
}

func TestPoolClosesWhatAnAbandonedOpenerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int32

		world := sim.NewWorld()
		late := func(_ context.Context, uri, gateway string) (hypervisor.Driver, error) {
			time.Sleep(time.Minute)

			d, err := sim.NewOpener(world)(context.Background(), uri, gateway)

			return &closing{Driver: d, closed: &closed}, err
		}
		p := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": late}, "home", hypervisor.PoolOptions{})

		p.Ensure("a", "sim://a")
		time.Sleep(50 * time.Second)
		p.Close()
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 2, closed.Load())
	})
}

// closing counts how often it is closed.
type closing struct {
	hypervisor.Driver

	closed *atomic.Int32
}

func (c *closing) Close() error {
	c.closed.Add(1)

	return errors.Join(c.Driver.Close(), errors.New("not cleanly"))
}
