package retention

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnEventOfTheFutureDoesNotStayUntilThen(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

	for received, stays := range map[time.Time]bool{
		now:                       true,
		now.Add(-keep + 1):        true,
		now.Add(-keep):            false,
		now.Add(10 * time.Hour):   false, // a restart came between, and the clock was set back
		now.Add(time.Millisecond): false,
	} {
		require.Equal(t, stays, isFresh(now.Sub(received), keep), "%s", received)
	}
}
