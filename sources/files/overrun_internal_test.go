package files

import (
	"fmt"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

func TestMorePathsThanAreRememberedHaveEverythingLookedAt(t *testing.T) {
	h := &hints{at: map[string]time.Time{}, moved: map[string]bool{}}

	for i := range maxHints {
		h.note(fsnotify.Event{Name: fmt.Sprint(i), Op: fsnotify.Write})
	}

	h.note(fsnotify.Event{Name: "one more", Op: fsnotify.Write})

	taken := h.take()
	require.True(t, taken.all)
	require.Len(t, taken.at, maxHints)
	require.False(t, h.take().all, "it is told once")
}
