package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

// A store that is torn from its disk leaves what its barrier had confirmed, and of the rest a prefix.
func TestATornStoreLeavesAPrefixWithAllThatWasConfirmed(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { tear(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func tear(t *testing.T, r *rand.Rand) {
	d := store.NewSimulatedDisk()
	// The committer's goroutine draws numbers of its own.
	disk := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	d.Commit = func(int) error {
		time.Sleep(time.Duration(disk.IntN(3)) * time.Millisecond)

		if disk.IntN(4) == 0 {
			return errors.New("injected")
		}

		return nil
	}

	s, err := d.Open(t.Context(), "home")
	require.NoError(t, err)

	made, confirmed := 0, 0

	for range 20 {
		if r.IntN(3) == 0 {
			require.NoError(t, s.Barrier(t.Context()))

			confirmed = made
		}

		if s.State().Create(t.Context(), vm(fmt.Sprintf("vm-%02d", made))) == nil { // refused while the disk refuses
			made++
		}

		time.Sleep(time.Duration(r.IntN(2)) * time.Millisecond)
	}

	s.Tear(func(queued int) int { return r.IntN(queued + 1) })
	_ = s.State().Create(t.Context(), vm("late")) // refused, or queued and never written
	_ = s.Close()                                 // it can write nothing more

	again, err := d.Open(t.Context(), "home")
	require.NoError(t, err)

	found, err := again.State().List(t.Context(), resources.NewVMConfig("").Metadata())
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found.Items), confirmed)

	for i, item := range found.Items {
		require.Equal(t, fmt.Sprintf("vm-%02d", i), item.Metadata().ID())
	}

	d.Commit = nil
	require.NoError(t, again.Close())
}

// slowDisk returns a disk that has written nothing within a second, and nothing afterwards.
func slowDisk() *store.SimulatedDisk {
	d := store.NewSimulatedDisk()
	d.Commit = func(int) error {
		time.Sleep(time.Second) // the kill comes before

		return errors.New("injected")
	}

	return d
}

// reopened kills a store whose queue has so many writes, of which the disk keeps the first, and returns the next one on the disk.
func reopened(t *testing.T, d *store.SimulatedDisk, s *store.SimulatedStore, queued, kept int) *store.SimulatedStore {
	t.Helper()

	s.Tear(func(n int) int {
		require.Equal(t, queued, n)

		return kept
	})

	_ = s.Close() // it can write nothing more
	d.Commit = nil

	again, err := d.Open(t.Context(), "home")
	require.NoError(t, err)

	return again
}

// An entry whose key a kill took would be taken in, and published, once more.
func TestAKillLeavesAnEntryWithItsKeyOrNeither(t *testing.T) {
	for cut, want := range []int{0, 1, 1, 2, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := slowDisk()

			s, err := d.Open(t.Context(), "home")
			require.NoError(t, err)

			for n := range 2 {
				require.NoError(t, s.Journal().Append(store.Entry{
					Class: store.ClassEvent, Source: resources.SourceWebhook, Name: "deploy", Key: fmt.Sprint(n), EventID: fmt.Sprint("event-", n),
				}))
			}

			again := reopened(t, d, s, 4, cut)

			entries, err := again.Journal().Query(t.Context(), store.Query{Source: resources.SourceWebhook})
			require.NoError(t, err)
			require.Len(t, entries, want)

			for n := range 2 {
				_, seen := again.Journal().Seen(resources.SourceWebhook, "deploy", fmt.Sprint(n))
				require.Equal(t, n < want, seen)
			}

			require.NoError(t, again.Close())
		})
	}
}
