package config

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopwatch measures the CPU time of this goroutine, which is the same whatever else the machine does. The function that
// it returns stops it.
func stopwatch(t *testing.T) func() time.Duration {
	t.Helper()
	runtime.LockOSThread()

	began := threadTime(t)

	return func() time.Duration {
		defer runtime.UnlockOSThread()

		return threadTime(t) - began
	}
}

// threadTime is the CPU time of the thread so far.
func threadTime(t *testing.T) time.Duration {
	t.Helper()

	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
