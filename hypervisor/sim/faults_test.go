package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestInjectedFaults(t *testing.T) {
	custom := errors.New("custom")

	for name, c := range map[string]struct {
		fault  sim.Fault
		want   error
		effect bool
		takes  time.Duration
	}{
		"fail before the effect":                  {sim.Fault{Kind: sim.FailBefore}, sim.ErrInjected, false, 0},
		"fail after the effect":                   {sim.Fault{Kind: sim.FailAfter, Err: custom}, custom, true, 0},
		"lose the connection before the effect":   {sim.Fault{Kind: sim.LoseBefore}, hypervisor.ErrConnectionLost, false, 0},
		"lose the connection after the effect":    {sim.Fault{Kind: sim.LoseAfter}, hypervisor.ErrConnectionLost, true, 0},
		"slow a call down":                        {sim.Fault{Kind: sim.Slow, Delay: time.Second}, nil, true, time.Second},
		"slow a call down beyond its context":     {sim.Fault{Kind: sim.Slow, Delay: time.Hour}, hypervisor.ErrUnreachable, false, 5 * time.Second},
		"make a call hang until its context ends": {sim.Fault{Kind: sim.Hang}, hypervisor.ErrUnreachable, false, 5 * time.Second},
		"hit only the call that they name":        {sim.Fault{Kind: sim.FailBefore, Call: "ForceOff"}, nil, true, 0},
		"hit only the object that they name":      {sim.Fault{Kind: sim.FailBefore, Subject: "other"}, nil, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.NewWorld()
				d := open(t, w, "sim://a")
				spec := specOf("web")

				_, err := d.DefineDomain(t.Context(), spec)
				require.NoError(t, err)

				w.Host("a").Inject(c.fault)

				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()

				began := time.Now()
				err = d.StartDomain(ctx, spec.UUID, false)
				require.Equal(t, c.takes, time.Since(began))
				require.ErrorIs(t, err, c.want)

				state, _ := stateOf(t, w.Host("a"), spec.UUID)
				require.Equal(t, c.effect, state == resources.StateRunning)
			})
		})
	}
}

func TestInjectedFaultEndsAfterItsTimes(t *testing.T) {
	w := sim.NewWorld()
	d := open(t, w, "sim://a")
	remove := w.Host("a").Inject(sim.Fault{Kind: sim.FailBefore, Times: 2})

	for range 2 {
		_, err := d.Info(t.Context())
		require.ErrorIs(t, err, sim.ErrInjected)
	}

	_, err := d.Info(t.Context())
	require.NoError(t, err)
	remove()
	remove()
}

func TestStuckCallTakesEffectWhenItIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld()
		d := open(t, w, "sim://a")
		spec := specOf("web")

		_, err := d.DefineDomain(t.Context(), spec)
		require.NoError(t, err)

		release := w.Host("a").Inject(sim.Fault{Kind: sim.Stuck})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		go func() { done <- d.StartDomain(ctx, spec.UUID, false) }()

		synctest.Wait()
		cancel()
		time.Sleep(time.Hour)

		select {
		case <-done:
			require.Fail(t, "it does not heed its context")
		default:
		}

		release()
		require.NoError(t, <-done)

		state, _ := stateOf(t, w.Host("a"), spec.UUID)
		require.Equal(t, resources.StateRunning, state)
	})
}

// outcomes tells what happens to calls on twenty domains, which are made in some order.
func outcomes(t *testing.T, uri string, backwards bool) map[string]string {
	t.Helper()

	w := sim.NewWorld()
	seen := map[string]string{}

	for i := range 20 {
		if backwards {
			i = 19 - i
		}

		var d hypervisor.Driver
		for d == nil {
			d, _ = sim.NewOpener(w)(t.Context(), uri, "home")
		}

		spec := specOf(fmt.Sprintf("vm-%d", i))
		for try := range 3 {
			_, err := d.DefineDomain(t.Context(), spec)
			_, exists := w.Host("a").Domain(spec.UUID)
			seen[fmt.Sprint(spec.Name, try)] = fmt.Sprint(err, exists)
		}
	}

	return seen
}

func TestFaultsFollowTheirSeed(t *testing.T) {
	const uri = "sim://a?failBefore=0.3&failAfter=0.3&seed="

	first := outcomes(t, uri+"1", false)
	require.Equal(t, first, outcomes(t, uri+"1", false), "a seed replays")
	require.Equal(t, first, outcomes(t, uri+"1", true), "in whatever order the objects come")
	require.NotEqual(t, first, outcomes(t, uri+"2", false))

	kinds := map[string]bool{}
	for _, outcome := range first {
		kinds[outcome] = true
	}

	require.Greater(t, len(kinds), 2, "there are failures, and there is success")
}

func TestEventFaults(t *testing.T) {
	for name, c := range map[string]struct {
		faults sim.Faults
		want   []hypervisor.EventKind
	}{
		"lose every event":   {sim.Faults{LoseEvent: 1}, nil},
		"double every event": {sim.Faults{DoubleEvent: 1}, []hypervisor.EventKind{"defined", "defined", "started", "started"}},
		"deliver late":       {sim.Faults{ReorderEvent: 1}, []hypervisor.EventKind{"started", "defined"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.NewWorld()
				d := open(t, w, "sim://a")
				w.Host("a").SetFaults(c.faults)

				var got []hypervisor.EventKind

				go func() {
					require.Error(t, d.Events(t.Context(), func() {}, func(e hypervisor.Event) { got = append(got, e.Kind) }))
				}()

				synctest.Wait()
				running(t, d, specOf("web"))
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, c.want, got)
			})
		})
	}
}

func TestSubscriberThatFallsBehindHasToRelist(t *testing.T) {
	w := sim.NewWorld()
	d := open(t, w, "sim://a")
	uuid := running(t, d, specOf("web"))

	var (
		ready, block = make(chan struct{}), make(chan struct{})
		ended        = make(chan error, 1)
		delivered    int
	)

	go func() {
		ended <- d.Events(context.Background(), func() { close(ready) }, func(hypervisor.Event) {
			<-block

			delivered++
		})
	}()

	<-ready

	for range 20_000 {
		w.Host("a").Pause(uuid)
		w.Host("a").Resume(uuid)
	}

	close(block)
	require.ErrorContains(t, <-ended, "were waiting")
	require.Less(t, delivered, 40_000)
}

func TestDeadHost(t *testing.T) {
	for name, off := range map[string]bool{"keeps its domains behind a broken network": false, "loses them in a power cut": true} {
		t.Run(name, func(t *testing.T) {
			w := sim.NewWorld()
			d := open(t, w, "sim://a")
			uuid := running(t, d, specOf("web"))

			w.Host("a").Kill(off)

			_, err := d.Domain(t.Context(), uuid)
			require.ErrorIs(t, err, hypervisor.ErrUnreachable)
			require.NotErrorIs(t, err, hypervisor.ErrNotFound)

			_, err = sim.NewOpener(w)(t.Context(), "sim://a", "home")
			require.ErrorIs(t, err, hypervisor.ErrUnreachable)

			w.Host("a").Revive()

			seen, err := open(t, w, "sim://a").Domain(t.Context(), uuid)
			require.NoError(t, err)
			require.Equal(t, off, seen.State == resources.StateStopped)
		})
	}
}
