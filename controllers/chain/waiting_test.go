package chain_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain"
)

func TestWaitingIsCountedFromTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w chain.Waiting

		require.Zero(t, w.Since("a", "1"))
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, w.Since("a", "1"))
		require.Zero(t, w.Since("b", "1"), "each by itself")
		require.Zero(t, w.Since("a", "2"), "what has changed begins anew")
		time.Sleep(time.Second)
		require.Equal(t, time.Second, w.Since("a", "2"))
		w.End("a")
		require.Zero(t, w.Since("a", "2"))
	})
}
