package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestWhatBeganBeforeTheClockWasSetBackBeginsNow(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := &pass{now: now, current: resources.NewVMStatus("web")}
	p.current.TypedSpec().Started, p.current.TypedSpec().StopRequested = now.Add(10*time.Hour), now.Add(time.Second)
	p.status = p.current.TypedSpec().DeepCopy()

	p.anchor()
	require.Equal(t, now, p.status.Started, "a crash is answered after its pause, not in ten hours")
	require.Equal(t, now, p.status.StopRequested, "the grace ends")

	p.status.Started, p.status.StopRequested = now.Add(-time.Minute), time.Time{}
	p.anchor()
	require.Equal(t, now.Add(-time.Minute), p.status.Started)
	require.Zero(t, p.status.StopRequested)
}
