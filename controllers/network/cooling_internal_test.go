package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCoolingIsBoundedAndForgetsTheOldestFirst(t *testing.T) {
	var c cooling

	first, now := netip.MustParseAddr("10.0.0.1"), time.Unix(1000, 0)

	for a, i := first, 0; i < 3*maxCooling; a, i = a.Next(), i+1 {
		c.add(a, "old", now)
		require.True(t, c.hot(a, "new"))
		require.False(t, c.hot(a, "old"), "its own lease is in nobody's way")
	}

	require.LessOrEqual(t, len(c.queue), 2*maxCooling)
	require.LessOrEqual(t, len(c.latest), 2*maxCooling)
	require.False(t, c.hot(first, "new"), "the oldest")

	// A VM whose entry is written anew gives its address up and takes it again, any number of times.
	last := c.queue[len(c.queue)-1].address

	for range 5 * maxCooling {
		c.add(first, "old", now)
		c.taken(first)
	}

	require.LessOrEqual(t, len(c.queue), 2*maxCooling)
	require.False(t, c.hot(first, "new"))
	require.True(t, c.hot(last, "new"), "what is dead in the queue pushes nothing out of it")

	c.expire(now.Add(coolFor))
	require.Empty(t, c.queue)
	require.Empty(t, c.latest)
}
