package api_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api/apitest"
	"gateway/store"
)

func TestABackupComesThroughTheSocketWholeAndIsInTheJournal(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	w := apitest.StartOn(t, s)

	var b bytes.Buffer

	require.NoError(t, w.Client.Backup(t.Context(), &b))

	dir := t.TempDir()
	done, err := store.Restore(dir, &b, false)
	require.NoError(t, err)
	require.Equal(t, s.GatewayID(), done.ID)

	restored, err := store.Open(t.Context(), store.Options{DataDir: dir})
	require.NoError(t, err)

	entries, err := restored.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassCommand}, Source: "api"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "store backup", entries[0].Name)
	require.NoError(t, restored.Close())
}

func TestThereIsNoBackupOfWhatIsOnlyInMemory(t *testing.T) {
	var b bytes.Buffer

	require.ErrorContains(t, apitest.Start(t).Client.Backup(t.Context(), &b), "the memory engine keeps nothing")
	require.Zero(t, b.Len())
}
