package chain_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain"
	"gateway/hypervisor"
)

func TestFlights(t *testing.T) {
	failure := errors.New("no")

	for name, test := range map[string]struct {
		call func(context.Context) error
		err  error
		// waited is how long Wait takes.
		waited time.Duration
	}{
		"a fast call is waited for":        {call: func(context.Context) error { return nil }},
		"its error is passed on":           {call: func(context.Context) error { return failure }, err: failure},
		"a slow call is left under way":    {call: hang, err: chain.ErrUnderWay, waited: time.Second},
		"a call that is slow but in time":  {call: func(context.Context) error { time.Sleep(time.Second / 2); return nil }, waited: time.Second / 2},
		"a panic is an error of this call": {call: func(context.Context) error { panic(failure) }, err: errors.New("panic: no")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := chain.NewFlights[string](time.Second)
				defer f.Close()

				start := time.Now()
				err := f.Begin("a", test.call).Wait(t.Context())

				require.Equal(t, test.waited, time.Since(start))

				if test.err == nil {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, test.err.Error())
				}
			})
		})
	}
}

func hang(ctx context.Context) error {
	<-ctx.Done()

	return context.Cause(ctx)
}

func TestFlightsOfOneKeyAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := chain.NewFlights[string](time.Second)

		var calls atomic.Int64

		call := func(ctx context.Context) error {
			calls.Add(1)

			return hang(ctx)
		}

		first, second := f.Begin("a", call), f.Begin("a", call)
		require.Same(t, first, second)
		f.Begin("b", call)
		synctest.Wait()
		require.Equal(t, int64(2), calls.Load())

		// One that hangs costs its patience once, not once for each who asks.
		require.ErrorIs(t, first.Wait(t.Context()), chain.ErrUnderWay)

		start := time.Now()
		require.ErrorIs(t, f.Begin("a", call).Wait(t.Context()), chain.ErrUnderWay)
		require.Equal(t, start, time.Now())

		f.Close()
		require.ErrorIs(t, first.Wait(t.Context()), context.Canceled)

		// Closed flights can be used again.
		require.NoError(t, f.Begin("a", func(context.Context) error { return nil }).Wait(t.Context()))
		f.Close()
	})
}

// A call that hangs costs a few workers its patience, and all others the time in which a host that makes progress answers.
func TestOnlyAFewWaitForACallThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := chain.NewFlights[string](time.Second)
		defer f.Close()

		start := time.Now()

		var (
			waiting     sync.WaitGroup
			brief, long atomic.Int64
		)

		for range 100 {
			waiting.Go(func() {
				require.ErrorIs(t, f.Begin("a", hang).Wait(t.Context()), chain.ErrUnderWay)

				switch time.Since(start) {
				case hypervisor.Patience:
					brief.Add(1)
				case time.Second:
					long.Add(1)
				}
			})
		}

		waiting.Wait()
		require.Equal(t, int64(4), long.Load())
		require.Equal(t, int64(96), brief.Load())
	})
}
