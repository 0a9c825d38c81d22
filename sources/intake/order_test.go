package intake_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

func TestMessagesAreNumberedAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.NewMemory("test").State()
		kind := resources.KindOf(resources.NewWebhookEvent("").Metadata())

		next := func(order *intake.Order) uint64 {
			n, err := order.Next(t.Context())
			require.NoError(t, err)

			return n
		}

		order := intake.NewOrder(st, kind)
		first, second := next(order), next(order)
		require.Equal(t, uint64(time.Now().UnixMicro()), first)
		require.Equal(t, first+1, second, "the clock stands")

		time.Sleep(time.Second)

		third := next(order)
		require.Equal(t, first+1_000_000, third)

		// One that waits was taken in before the clock was set back by an hour and the process was started again.
		waits := resources.NewWebhookEvent("e")
		waits.TypedSpec().Event.Sequence = third + 3600*1_000_000
		require.NoError(t, st.Create(t.Context(), waits))
		require.Equal(t, waits.TypedSpec().Event.Sequence+1, next(intake.NewOrder(st, kind)))
	})
}
