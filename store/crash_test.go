package store_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/store"
)

// crashDirVariable makes the test program one that writes until it is killed.
const crashDirVariable = "STORE_TEST_CRASH_DIR"

// writeUntilKilled creates VMs and journal entries from several goroutines and prints the name of each that the barrier
// confirmed.
func writeUntilKilled(dir string) {
	ctx := context.Background()

	s, err := store.Open(ctx, store.Options{DataDir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}

	var out sync.Mutex

	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("vm-%d-%d-%d", os.Getpid(), w, i)

				err := s.State().Create(ctx, vm(name))
				if err == nil {
					err = s.Journal().Append(store.Entry{Class: store.ClassEvent, Source: "webhook", Name: "w", Key: name, EventID: name})
				}

				if err == nil {
					err = s.Barrier(ctx)
				}

				out.Lock()
				if err != nil {
					fmt.Println("error", err)
				} else {
					fmt.Println(name)
				}
				out.Unlock()
			}
		}()
	}

	select {}
}

func TestWhatTheBarrierConfirmedSurvivesAKill(t *testing.T) {
	dir := t.TempDir()
	confirmed := map[string]bool{}

	for range 5 {
		for name := range runAndKill(t, dir, rand.IntN(400)) {
			confirmed[name] = true
		}

		s, err := store.Open(t.Context(), store.Options{DataDir: dir})
		require.NoError(t, err)

		for name := range confirmed {
			_, err := s.State().Get(t.Context(), vm(name).Metadata())
			require.NoError(t, err, "the barrier confirmed %s", name)

			id, ok := s.Journal().Seen("webhook", "w", name)
			require.True(t, ok)
			require.Equal(t, name, id)
		}

		require.NoError(t, s.Close())
	}

	require.NotEmpty(t, confirmed)
}

// runAndKill starts a writer, kills it some time after a number of confirmations, and returns all that it confirmed.
func runAndKill(t *testing.T, dir string, after int) map[string]bool {
	t.Helper()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDirVariable+"="+dir)

	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	// The writer dies whatever happens to it, so that the test ends.
	guard := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()

	confirmed := map[string]bool{}

	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		name := lines.Text()
		require.False(t, strings.HasPrefix(name, "error"), name)
		confirmed[name] = true

		if len(confirmed) == after+1 {
			require.NoError(t, cmd.Process.Kill())
		}
	}

	require.Error(t, cmd.Wait(), "the writer was killed")

	return confirmed
}
