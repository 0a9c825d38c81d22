package intaketest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// stall is how long what is waited for may stand still: longer than any pause of a busy machine.
	stall = time.Minute
	look  = 50 * time.Millisecond
)

// Progress waits until report says that it is done. It fails when the number that it reports has not changed for a minute: a busy
// machine takes its time, and only what stands still never ends.
func Progress(t *testing.T, what string, report func() (number int, done bool)) {
	t.Helper()

	ticker := time.NewTicker(look)
	defer ticker.Stop()

	last, since := -1, time.Now()

	for {
		number, done := report()
		if done {
			return
		}

		if number != last {
			last, since = number, time.Now()
		}

		require.Less(t, time.Since(since), stall, "%s: it stands at %d", what, number)

		<-ticker.C
	}
}
