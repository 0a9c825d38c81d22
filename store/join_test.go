package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

// take creates an event together with its entry, as a source does.
func take(ctx context.Context, s store.Store, id string) error {
	joined, finish := s.Journal().Join(ctx, store.Entry{
		Class: store.ClassEvent, Source: resources.SourceWebhook, Name: "deploy", Key: id, EventID: id,
	})

	if err := s.State().Create(joined, resources.NewWebhookEvent(id)); err != nil {
		return err
	}

	return finish()
}

// isThere tells whether the event, its entry and its key are there, which all are, or none.
func isThere(t *testing.T, s store.Store, id string) bool {
	t.Helper()

	_, err := s.State().Get(t.Context(), resources.NewWebhookEvent(id).Metadata())
	require.True(t, err == nil || state.IsNotFoundError(err))

	entries, failure := s.Journal().Query(t.Context(), store.Query{EventID: id})
	require.NoError(t, failure)

	_, seen := s.Journal().Seen(resources.SourceWebhook, "deploy", id)
	require.Equal(t, err == nil, seen)
	require.Equal(t, err == nil, len(entries) == 1)

	return seen
}

func TestAKillLeavesAnEventWithItsEntryOrNeither(t *testing.T) {
	for cut, want := range []int{0, 1, 1, 1, 2, 2, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := slowDisk()

			s, err := d.Open(t.Context(), "home")
			require.NoError(t, err)

			for n := range 2 {
				require.NoError(t, take(t.Context(), s, fmt.Sprint(n)))
			}

			again := reopened(t, d, s, 6, cut)

			for n := range 2 {
				require.Equal(t, n < want, isThere(t, again, fmt.Sprint(n)))
			}

			require.NoError(t, again.Close())
		})
	}
}

// A disk that fails between an event and its entry would leave an event that works, and that nobody can ask about.
func TestADiskThatFailsLeavesNoEventWithoutItsEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool

		d := store.NewSimulatedDisk()
		d.Commit = func(int) error {
			if fails.Load() {
				return errors.New("injected")
			}

			return nil
		}

		s, err := d.Open(t.Context(), "home")
		require.NoError(t, err)
		require.NoError(t, take(t.Context(), s, "first"))
		require.NoError(t, s.Barrier(t.Context()))

		fails.Store(true)
		require.NoError(t, take(t.Context(), s, "queued"))
		time.Sleep(time.Second)
		require.ErrorContains(t, take(t.Context(), s, "refused"), "injected")
		require.True(t, state.IsConflictError(take(t.Context(), s, "first")))

		fails.Store(false)

		time.Sleep(time.Minute)
		require.NoError(t, s.Barrier(t.Context()))

		for id, want := range map[string]bool{"first": true, "queued": true, "refused": false} {
			require.Equal(t, want, isThere(t, s, id), id)
		}

		require.NoError(t, take(t.Context(), s, "refused"), "it comes again")
		require.True(t, isThere(t, s, "refused"))
		require.NoError(t, s.Close())
	})
}

func TestAnEntryIsJoinedToOneObject(t *testing.T) {
	for name, s := range map[string]store.Store{"on a disk": onDisk(t), "in memory": store.NewMemory("home")} {
		t.Run(name, func(t *testing.T) {
			joined, finish := s.Journal().Join(t.Context(), store.Entry{Class: store.ClassEvent, Source: resources.SourceWebhook, EventID: "a"})
			require.NoError(t, s.State().Create(joined, resources.NewWebhookEvent("a")))
			require.NoError(t, s.State().Create(joined, resources.NewWebhookEvent("b")))
			require.NoError(t, finish())

			entries, err := s.Journal().Query(t.Context(), store.Query{})
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

// onDisk is a store of the default engine.
func onDisk(t *testing.T) store.Store {
	t.Helper()

	s, err := store.NewSimulatedDisk().Open(t.Context(), "home")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s
}
