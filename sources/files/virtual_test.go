package files_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/files"
	"gateway/sources/intake/intaketest"
)

// What the file system says of times is not believed where time is virtual: two looks must agree.
func TestThePollingSourceWorksInVirtualTime(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.yaml")

	synctest.Test(t, func(t *testing.T) {
		st := intaketest.NewState()

		source, err := files.New(files.Options{Roots: []string{root}, NoWatch: true})
		require.NoError(t, err)

		defer intaketest.Run(t, st, source, reader{})()

		digest := func() string {
			event, err := safe.StateGetByID[*resources.FileEvent](t.Context(), st, resources.FileID(path))
			if state.IsNotFoundError(err) {
				return ""
			}

			require.NoError(t, err)

			return event.TypedSpec().Digest
		}

		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}

		pass(time.Millisecond)
		require.NoError(t, os.WriteFile(path, []byte("a: 1"), 0o644))
		pass(files.DefaultPoll + files.DefaultSettle - 20*time.Millisecond)
		require.Empty(t, digest(), "seen, not settled")
		pass(50 * time.Millisecond)
		require.Equal(t, resources.Digest([]byte("a: 1")), digest())

		require.NoError(t, os.Remove(path))
		pass(files.DefaultPoll + files.DefaultSettle + time.Second)
		require.Empty(t, digest())
	})
}
