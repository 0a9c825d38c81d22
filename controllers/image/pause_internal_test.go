package image

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestAPauseEndsAlsoWhereTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

	for next, pause := range map[time.Time]time.Duration{
		{}:                        0,
		now.Add(-time.Second):     0,
		now.Add(maxRetry):         maxRetry,
		now.Add(10 * time.Hour):   0,
		now.Add(30 * time.Second): 30 * time.Second,
	} {
		require.Equal(t, pause, pauseOf(&resources.ImageOnHost{NextTry: next}, now), "%s", next)
	}
}
