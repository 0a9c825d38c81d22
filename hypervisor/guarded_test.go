package hypervisor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/contract"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// A hanging call on one VM delays no other VM, on the same host or on others, and no event.
func TestCaseV65AHangingCallDelaysNobodyElse(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Steps: 2}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		a, b := connect(t, p, "a", "sim://a"), connect(t, p, "b", "sim://b")
		stuck, other, elsewhere := vm(t, a, "stuck"), vm(t, a, "other"), vm(t, b, "elsewhere")

		var events []hypervisor.Event

		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())

		go func() {
			ended <- a.Events(ctx, func() {}, func(e hypervisor.Event) { events = append(events, e) })
		}()

		release := w.Host("a").Inject(sim.Fault{Kind: sim.Stuck, Call: "StartDomain", Subject: stuck})
		began := time.Now()
		hung := make(chan error, 1)

		go func() { hung <- a.StartDomain(t.Context(), stuck, false) }()

		synctest.Wait()

		for range 100 {
			require.NoError(t, a.StartDomain(t.Context(), other, false))
			require.NoError(t, a.ForceOff(t.Context(), other))
			require.NoError(t, b.StartDomain(t.Context(), elsewhere, false))
			require.NoError(t, b.ForceOff(t.Context(), elsewhere))
		}

		synctest.Wait()
		require.Len(t, events, 200)
		require.Zero(t, time.Since(began), "nobody waited")

		require.ErrorIs(t, <-hung, hypervisor.ErrUnreachable)
		require.Equal(t, hypervisor.StepTimeout, time.Since(began))

		// The domain is set aside: trying again takes no time and no place, and reading goes on.
		for range 10 {
			require.ErrorIs(t, a.StartDomain(t.Context(), stuck, false), hypervisor.ErrBusy)
		}

		require.Equal(t, hypervisor.StepTimeout, time.Since(began))

		_, err := a.Domain(t.Context(), stuck)
		require.NoError(t, err)
		require.NoError(t, a.StartDomain(t.Context(), other, false))

		release()
		synctest.Wait()
		require.NoError(t, a.ForceOff(t.Context(), stuck), "the call has ended: the domain is no longer set aside")
		require.True(t, p.Status("a").Connected, "one hanging call is no lost connection")

		cancel()
		require.Error(t, <-ended)
	})
}

func TestPoolBoundsCallsThatNeverAnswer(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Abandoned: 5}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		uuid := vm(t, d, "web")
		release := w.Host("a").Inject(sim.Fault{Kind: sim.Stuck, Call: "Domain"})

		var calls sync.WaitGroup

		for range 5 {
			calls.Go(func() {
				_, err := d.Domain(t.Context(), uuid)
				require.ErrorIs(t, err, hypervisor.ErrUnreachable)
			})
		}

		calls.Wait()

		began := time.Now()
		_, err := d.Networks(t.Context())
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.ErrorContains(t, err, "5 earlier calls have not ended")
		require.Zero(t, time.Since(began))

		// The ping fails by this too, and the new connection frees them.
		time.Sleep(25 * time.Second)
		require.Equal(t, int64(2), p.Status("a").Generation)
		release()

		d, err = p.Driver("a")
		require.NoError(t, err)

		_, err = d.Domain(t.Context(), uuid)
		require.NoError(t, err)
	})
}

func TestPoolBoundsStepsOnAHost(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Steps: 4}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")

		var uuids []string
		for i := range 12 {
			uuids = append(uuids, vm(t, d, fmt.Sprintf("vm-%d", i)))
		}

		w.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "StartDomain", Delay: 10 * time.Second})

		began := time.Now()

		var (
			calls sync.WaitGroup
			mu    sync.Mutex // guards the following
			away  []time.Duration
		)

		for _, uuid := range uuids {
			calls.Go(func() {
				err := d.StartDomain(t.Context(), uuid, false)
				if err == nil {
					return
				}

				_, crowded := hypervisor.IsCrowded(err)
				require.True(t, crowded, "%v", err)
				require.ErrorIs(t, err, hypervisor.ErrBusy)

				mu.Lock()
				defer mu.Unlock()

				away = append(away, time.Since(began))
			})
		}

		synctest.Wait()

		_, err := d.Domains(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "reads don't wait for steps")

		calls.Wait()
		require.Equal(t, 20*time.Second, time.Since(began), "four are worked on, four wait")

		slow := hypervisor.Patience
		require.Equal(t, []time.Duration{slow, slow, slow, slow}, away, "others are sent away once it is clear that it takes long")
	})
}

func TestWhoIsSentAwayComesAgainAtTheHostsPace(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Steps: 1}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")

		var uuids []string
		for i := range 6 {
			uuids = append(uuids, vm(t, d, fmt.Sprintf("vm-%d", i)))
		}

		w.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "StartDomain", Delay: time.Second})
		w.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "ForceOff", Delay: time.Second})

		for range 20 {
			require.NoError(t, d.StartDomain(t.Context(), uuids[0], false))
			require.NoError(t, d.ForceOff(t.Context(), uuids[0]))
		}

		for _, uuid := range uuids[1:3] {
			go func() { require.NoError(t, d.StartDomain(t.Context(), uuid, false)) }()
		}

		time.Sleep(hypervisor.Patience)

		for i, uuid := range uuids[3:] {
			began := time.Now()
			after, crowded := hypervisor.IsCrowded(d.StartDomain(t.Context(), uuid, false))
			require.True(t, crowded)
			require.Zero(t, time.Since(began))
			require.InDelta(t, hypervisor.Patience+time.Duration(i)*time.Second, after, float64(time.Millisecond), "a step takes a second")
		}

		time.Sleep(2 * time.Second)
	})
}

// What waits for a host that does not answer is a few reads, and neither a step nor a read that it would answer waits behind them.
func TestAHostThatDoesNotAnswerIsNotAskedByMore(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Reads: 4}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		uuid := vm(t, d, "web")

		require.NoError(t, p.Admit("a"))
		require.NoError(t, p.Admit("nobody"))

		release := w.Host("a").Inject(sim.Fault{Kind: sim.Hang, Call: "Domain"})
		began := time.Now()

		var waited [10]time.Duration

		for i := range waited {
			go func() {
				_, err := d.Domain(t.Context(), uuid)
				require.Error(t, err)

				waited[i] = time.Since(began)
			}()

			synctest.Wait()
		}

		require.NoError(t, p.Admit("a"), "nobody knows yet")
		time.Sleep(hypervisor.Patience)
		synctest.Wait()
		require.Equal(t, [10]time.Duration{4: hypervisor.Patience, 5: hypervisor.Patience, 6: hypervisor.Patience, 7: hypervisor.Patience,
			8: hypervisor.Patience, 9: hypervisor.Patience}, waited)

		after, crowded := hypervisor.IsCrowded(p.Admit("a"))
		require.True(t, crowded)
		require.GreaterOrEqual(t, after, hypervisor.Patience)

		require.NoError(t, d.StartDomain(t.Context(), uuid, false), "a step has a place of its own")

		time.Sleep(hypervisor.ReadTimeout)
		require.NoError(t, p.Admit("a"), "those that waited have ended")

		release()

		for range 100 {
			_, err := d.Domain(t.Context(), uuid)
			require.NoError(t, err)
			require.NoError(t, p.Admit("a"))
		}
	})
}

// A host on another continent answers each read late, and is no hanging one.
func TestAHostThatAnswersLateIsAskedOn(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		uuid := vm(t, d, "web")
		w.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "Domain", Delay: 200 * time.Millisecond})

		var reads sync.WaitGroup

		for range 32 {
			reads.Go(func() {
				_, err := d.Domain(t.Context(), uuid)
				require.NoError(t, err)
			})
		}

		time.Sleep(300 * time.Millisecond)
		require.NoError(t, p.Admit("a"))
		reads.Wait()
	})
}

func TestPoolRefusesAStepThatFindsNoPlaceInTime(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{Steps: 1}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		slow, waiting := vm(t, d, "slow"), vm(t, d, "waiting")
		w.Host("a").Inject(sim.Fault{Kind: sim.Slow, Call: "StartDomain", Delay: 20 * time.Second})

		go func() { require.NoError(t, d.StartDomain(t.Context(), slow, false)) }()

		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		require.ErrorIs(t, d.StartDomain(ctx, waiting, false), hypervisor.ErrBusy)

		seen, err := d.Domain(t.Context(), waiting)
		require.NoError(t, err)
		require.Equal(t, resources.StateStopped, seen.State)
		time.Sleep(time.Minute)
	})
}

func TestPoolOutlivesAPanicOfADriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := sim.NewWorld()
		open := func(ctx context.Context, uri, gateway string) (hypervisor.Driver, error) {
			d, err := sim.NewOpener(world)(ctx, uri, gateway)

			return panicking{d}, err
		}
		p := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": open}, "home", hypervisor.PoolOptions{})
		defer p.Close()

		d := connect(t, p, "a", "sim://a")

		_, err := d.Networks(t.Context())
		require.ErrorContains(t, err, "out of order")

		_, err = d.Domains(t.Context())
		require.NoError(t, err)
	})
}

type panicking struct{ hypervisor.Driver }

func (panicking) Networks(context.Context) ([]hypervisor.Network, error) { panic("out of order") }

func TestPoolErrorNamesCallObjectAndHost(t *testing.T) {
	inBubble(t, hypervisor.PoolOptions{}, func(t *testing.T, w *sim.World, p *hypervisor.Pool) {
		d := connect(t, p, "a", "sim://a")
		w.Host("a").Inject(sim.Fault{Kind: sim.Stuck, Call: "EnsureVolume"})

		_, _, err := d.EnsureVolume(t.Context(), hypervisor.VolumeSpec{Name: "web.root.qcow2", Size: 1})
		require.ErrorContains(t, err, `EnsureVolume of volume web.root.qcow2 on host "a"`)
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err = d.Domains(ctx)
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.NotErrorIs(t, err, context.Canceled, "COSI takes that for success")
	})
}

// What the pool hands out keeps the contract of drivers.
func TestContractThroughThePool(t *testing.T) {
	world := sim.NewWorld()
	host := world.Host("a")

	contract.Run(t, contract.Harness{
		Gateway: "home",
		Open: func(t *testing.T) hypervisor.Driver {
			t.Helper()

			p := hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(world)}, "home", hypervisor.PoolOptions{})
			p.Ensure("a", "sim://a?shutdown=10ms")

			var d hypervisor.Driver

			require.Eventually(t, func() (ok bool) {
				var err error

				d, err = p.Driver("a")

				return err == nil
			}, 5*time.Second, time.Millisecond)

			return pooled{d, p}
		},
		Capabilities: contract.Capabilities{Networks: true, DHCP: true, Volumes: true, Pause: true, Shutdown: true, HotPlug: true, EventsOrdered: true},
		Behind: contract.Behind{
			Define: func(t *testing.T, name, uuid string) {
				t.Helper()
				require.NoError(t, host.AddDomain(hypervisor.Domain{Name: name, UUID: uuid, Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB}}))
			},
			Start:     func(_ *testing.T, uuid string) { host.Start(uuid) },
			Destroy:   func(_ *testing.T, uuid string) { host.Destroy(uuid) },
			Undefine:  func(_ *testing.T, uuid string) { host.Undefine(uuid) },
			SetMemory: func(_ *testing.T, uuid string, m resources.Size) { host.SetMemory(uuid, m) },
			DefineNetwork: func(t *testing.T, name string) {
				t.Helper()
				require.NoError(t, host.AddNetwork(hypervisor.Network{Name: name, UUID: uuid.NewString(), Active: true}))
			},
			RemoveNetwork: func(_ *testing.T, name string) { host.DropNetwork(name) },
			Disconnect:    func(*testing.T) { host.DropConnections() },
		},
	})
}

// pooled closes its pool.
type pooled struct {
	hypervisor.Driver

	pool *hypervisor.Pool
}

func (p pooled) Close() error {
	p.pool.Close()

	return nil
}
