package store_test

import (
	"context"
	"expvar"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime/metrics"
	"github.com/stretchr/testify/require"

	"gateway/store"
)

func TestThePacerSlowsIntakeDownWhileAnyQueueIsLong(t *testing.T) {
	length := &expvar.Int{}
	metrics.QControllerQueueLength.Set("test-busy", length)
	metrics.QControllerQueueLength.Set("test-idle", &expvar.Int{})

	defer metrics.QControllerQueueLength.Delete("test-busy")
	defer metrics.QControllerQueueLength.Delete("test-idle")

	synctest.Test(t, func(t *testing.T) {
		p := store.NewPacer(0)

		length.Set(store.DefaultPace)
		require.NoError(t, p.Wait(t.Context()))

		length.Set(store.DefaultPace + 1)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)

		// A controller that stands still does not stop intake.
		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, 100*time.Millisecond, time.Since(start))

		passed := make(chan error, 1)
		go func() { passed <- p.Wait(t.Context()) }()

		synctest.Wait()
		require.Empty(t, passed)
		length.Set(10)
		require.NoError(t, <-passed)
	})
}

func TestAControllerDoesNotWaitForItsOwnQueue(t *testing.T) {
	length := &expvar.Int{}
	length.Set(100_000)
	metrics.QControllerQueueLength.Set("test-own", length)

	defer metrics.QControllerQueueLength.Delete("test-own")

	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, store.NewPacer(0, "test-own").Wait(t.Context()))
		require.Zero(t, time.Since(start))
	})
}

func TestThePacerDoesNotWaitForWhatIsParked(t *testing.T) {
	length := &expvar.Int{}
	length.Set(1000)
	metrics.QControllerQueueLength.Set("test-parked", length)

	defer metrics.QControllerQueueLength.Delete("test-parked")

	synctest.Test(t, func(t *testing.T) {
		parked := int64(1000 - store.DefaultPace)
		p := store.NewPacer(0).Discount(func(controller string) int64 {
			require.Equal(t, "test-parked", controller)

			return parked
		})

		start := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Zero(t, time.Since(start))

		parked--

		require.NoError(t, p.Wait(t.Context()))
		require.NotZero(t, time.Since(start))
	})
}
