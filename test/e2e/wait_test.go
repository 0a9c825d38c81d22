package e2e

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowFactor stretches what has to be there within a time on machines that are known to be slow, or for a binary with the
// race detector. The times that are promised hold without it.
const slowFactor = "GATEWAY_E2E_SLOW"

// stretched is a promised time as this run allows it.
func stretched(d time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv(slowFactor), 64)
	if err != nil || factor < 1 {
		return d
	}

	return time.Duration(float64(d) * factor)
}

// crowd is by how much this machine has more to do than it has processors for: a promised time holds for one that has not.
func crowd(t *testing.T) float64 {
	t.Helper()

	text, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)

	var load float64

	_, err = fmt.Sscan(string(text), &load)
	require.NoError(t, err)

	return max(1, load/float64(runtime.NumCPU()))
}

// patience is how long what has no promised time may take, on two busy cores.
const patience = 60 * time.Second

// within waits until check returns nil, and returns how long that took.
func within(t *testing.T, limit time.Duration, what string, check func() error) time.Duration {
	t.Helper()

	return poll(t, 20*time.Millisecond, limit, what, check)
}

// poll does it with a pause between two looks: on two processors a look that starts programs takes away from what it waits for.
func poll(t *testing.T, interval, limit time.Duration, what string, check func() error) time.Duration {
	t.Helper()

	begin := time.Now()
	ticker := time.NewTicker(interval)

	defer ticker.Stop()

	for {
		err := check()
		took := time.Since(begin)

		if err == nil && took <= limit {
			return took
		}

		if took > limit {
			t.Fatalf("not within %s: %s (it took %s so far): %v", limit, what, took.Round(time.Millisecond), err)
		}

		select {
		case <-t.Context().Done():
			t.Fatalf("the test ended while it waited: %s", what)
		case <-ticker.C:
		}
	}
}

// eventually waits until check returns nil, with patience.
func eventually(t *testing.T, what string, check func() error) time.Duration {
	t.Helper()

	return within(t, patience, what, check)
}
