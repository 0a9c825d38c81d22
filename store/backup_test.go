package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

// whole requires that a data directory has nothing wrong with it.
func whole(t *testing.T, dir string) *store.Report {
	t.Helper()

	r, err := store.Check(dir)
	require.NoError(t, err)
	require.Empty(t, r.Problems)

	return r
}

// online takes a backup of an open store.
func online(t *testing.T, s store.Store) []byte {
	t.Helper()

	var (
		b    bytes.Buffer
		size int64
	)

	backuper, ok := s.(store.Backuper)
	require.True(t, ok)
	require.NoError(t, backuper.Backup(t.Context(), &b, func(n int64) { size = n }))
	require.EqualValues(t, b.Len(), size)

	return b.Bytes()
}

func has(t *testing.T, dir string, names ...string) {
	t.Helper()

	s := open(t, dir)
	defer func() { require.NoError(t, s.Close()) }()

	for _, name := range names {
		_, err := s.State().Get(t.Context(), vm(name).Metadata())
		require.NoError(t, err, name)
	}
}

func TestABackupOfAnOpenStoreHasWhatWasConfirmedBefore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)

	for i := range 100 {
		require.NoError(t, s.State().Create(t.Context(), vm(fmt.Sprintf("vm-%d", i))))
	}

	require.NoError(t, s.Journal().Append(store.Entry{Class: store.ClassEvent, Source: "webhook", Name: "deploy", Key: "k", EventID: "e"}))

	backup := online(t, s)
	require.NoError(t, s.State().Create(t.Context(), vm("later")))

	to := filepath.Join(t.TempDir(), "data")
	done, err := store.Restore(to, bytes.NewReader(backup), false)
	require.NoError(t, err)
	require.Equal(t, s.GatewayID(), done.ID)
	require.Empty(t, done.Aside)
	require.NoError(t, s.Close())

	whole(t, to)
	has(t, to, "vm-0", "vm-99")

	restored := open(t, to)
	require.Equal(t, done.ID, restored.GatewayID())

	_, err = restored.State().Get(t.Context(), vm("later").Metadata())
	require.Error(t, err)

	id, seen := restored.Journal().Seen("webhook", "deploy", "k")
	require.True(t, seen)
	require.Equal(t, "e", id)
	require.NoError(t, restored.Close())
	has(t, dir, "later")
}

func TestABackupOfAClosedStoreHasWhatOnlyItsLogHas(t *testing.T) {
	dir := t.TempDir()

	var confirmed []string
	for name := range runAndKill(t, dir, 50) {
		confirmed = append(confirmed, name)
	}

	before := listing(t, dir)
	to := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, store.BackupOffline(t.Context(), dir, to))
	require.Equal(t, before, listing(t, dir), "nothing in the directory was changed")

	info, err := os.Stat(to)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	r, err := store.CheckBackup(to)
	require.NoError(t, err)
	require.Empty(t, r.Problems)

	f, err := os.Open(to)
	require.NoError(t, err)

	restored := filepath.Join(t.TempDir(), "data")
	_, err = store.Restore(restored, f, false)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	whole(t, restored)
	has(t, restored, confirmed...)
}

// listing returns the content of a directory's files, but not of the lock.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()

	files := map[string]string{}

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)

	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)

		if e.Name() != "lock" {
			files[e.Name()] = string(content)
		}
	}

	return files
}

func TestABackupThatFailsLeavesTheOldOne(t *testing.T) {
	to := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.WriteFile(to, []byte("old"), 0o600))

	require.ErrorContains(t, store.WriteBackup(to, func(w io.Writer) error {
		_, err := w.Write([]byte("new"))

		return errors.Join(err, errors.New("the disk is gone"))
	}), "the disk is gone")
	require.ErrorContains(t, store.WriteBackup(to, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1000))

		return err
	}), "cut off")
	require.Equal(t, map[string]string{"backup": "old"}, listing(t, filepath.Dir(to)))
}

func TestABackupEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir())
	require.NoError(t, s.State().Create(t.Context(), vm("vm")))

	ctx, cancel := context.WithCancel(t.Context())
	err := s.(store.Backuper).Backup(ctx, io.Discard, func(int64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestADirectoryThatIsInUseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	backup := online(t, s)

	_, err := store.Check(dir)
	require.ErrorIs(t, err, store.ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d", os.Getpid()))
	require.ErrorIs(t, store.BackupOffline(t.Context(), dir, filepath.Join(t.TempDir(), "b")), store.ErrInUse)

	_, err = store.Restore(dir, bytes.NewReader(backup), true)
	require.ErrorIs(t, err, store.ErrInUse)

	_, err = store.Repair(dir)
	require.ErrorIs(t, err, store.ErrInUse)
	require.NoError(t, s.Close())
	whole(t, dir)
}

func TestARestoreRefusesWhatIsNoBackup(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.State().Create(t.Context(), vm("vm")))

	backup := online(t, s)
	require.NoError(t, s.Close())

	changed := bytes.Clone(backup)
	changed[len(changed)/2] ^= 1

	plain, err := os.ReadFile(filepath.Join(dir, "store.db"))
	require.NoError(t, err)

	newer := func() []byte {
		edit(t, dir, "meta", "version", "3")

		to := filepath.Join(t.TempDir(), "backup")
		content, err := os.ReadFile(filepath.Join(dir, "store.db"))
		require.NoError(t, err)
		require.NoError(t, store.WriteBackup(to, store.Sealed(content)))

		sealed, err := os.ReadFile(to)
		require.NoError(t, err)

		return sealed
	}()

	for name, test := range map[string]struct {
		backup []byte
		says   string
	}{
		"an empty file":              {nil, "not a backup"},
		"a store file":               {plain, "not a backup"},
		"one that is cut off":        {backup[:len(backup)-1], "cut off"},
		"one without its beginning":  {backup[4096:], "cut off"},
		"one that was changed":       {changed, "its checksum is another"},
		"one of a newer gateway":     {newer, "its format has version 3, and this gateway reads up to 2"},
		"something else, but sealed": {sealed(t, []byte("no store")), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			_, err := store.Restore(to, bytes.NewReader(test.backup), true)
			require.ErrorContains(t, err, test.says)
			require.Empty(t, listing(t, to), "nothing is left behind")
		})
	}
}

func sealed(t *testing.T, content []byte) []byte {
	t.Helper()

	to := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, store.WriteBackup(to, store.Sealed(content)))

	b, err := os.ReadFile(to)
	require.NoError(t, err)

	return b
}

func TestARestoreKeepsWhatIsThereAside(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	s := open(t, from)
	require.NoError(t, s.State().Create(t.Context(), vm("old")))

	id, backup := s.GatewayID(), online(t, s)
	require.NoError(t, s.Close())

	other := open(t, to)
	require.NoError(t, other.State().Create(t.Context(), vm("new")))
	require.NoError(t, other.Close())

	_, err := store.Restore(to, bytes.NewReader(backup), false)
	require.ErrorContains(t, err, "belongs to gateway")
	has(t, to, "new")

	_, err = store.Restore(from, bytes.NewReader(backup), false)
	require.ErrorContains(t, err, "has a store already")

	done, err := store.Restore(to, bytes.NewReader(backup), true)
	require.NoError(t, err)
	require.NotEmpty(t, done.Aside)
	require.Equal(t, id, whole(t, to).ID)
	has(t, to, "old")
	has(t, done.Aside, "new")
}

// An operator whose store.db is gone restores a backup without force: there is nothing to lose.
func TestALostStoreIsRestoredWithoutForce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, s.State().Create(t.Context(), vm("old")))

	backup := online(t, s)
	require.NoError(t, s.Close())

	for _, name := range []string{"store.db", "store.log.0", "store.log.1"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}

	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	require.ErrorContains(t, err, "gateway store restore")

	r, err := store.Check(dir)
	require.NoError(t, err)
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].String(), "the store is missing")

	_, err = store.Restore(dir, bytes.NewReader(backup), false)
	require.NoError(t, err)
	has(t, dir, "old")
}

// What a restored gateway knows may be old: where VMs are, and which numbers it gave out.
func TestARestoredStoreKnowsThatItIsOld(t *testing.T) {
	s := open(t, t.TempDir())

	placement := resources.NewVMPlacement("web-1")
	*placement.TypedSpec() = resources.VMPlacementSpec{Host: "a", Reason: resources.ReasonPlaced}
	placement.Metadata().Labels().Set(resources.LabelHost, "a")

	leaving := resources.NewVMPlacement("web-2")
	*leaving.TypedSpec() = resources.VMPlacementSpec{Host: "a", Reason: resources.ReasonPlaced}

	for _, r := range []resource.Resource{vm("web-1"), placement, leaving, resources.NewVMStatus("web-1")} {
		require.NoError(t, s.State().Create(t.Context(), r))
	}

	_, err := s.State().Teardown(t.Context(), leaving.Metadata())
	require.NoError(t, err)
	require.NoError(t, s.Journal().Append(store.Entry{Class: store.ClassEvent, Source: "webhook"}))

	dir := t.TempDir()
	_, err = store.Restore(dir, bytes.NewReader(online(t, s)), false)
	require.NoError(t, err)

	restored := open(t, dir)
	got, err := restored.State().Get(t.Context(), placement.Metadata())
	require.NoError(t, err)
	require.Equal(t, "a", got.(*resources.VMPlacement).TypedSpec().Former)
	require.Empty(t, got.(*resources.VMPlacement).TypedSpec().Host)

	_, labelled := got.Metadata().Labels().Get(resources.LabelHost)
	require.False(t, labelled)

	got, err = restored.State().Get(t.Context(), leaving.Metadata())
	require.NoError(t, err)
	require.Equal(t, "a", got.(*resources.VMPlacement).TypedSpec().Host, "it leaves the host on which it was")

	got, err = restored.State().Get(t.Context(), resources.NewVMStatus("web-1").Metadata())
	require.NoError(t, err)
	require.Greater(t, got.Metadata().Version().Value(), uint64(1<<32))

	entries, err := restored.Journal().Query(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, "restore", entries[1].Name)
	require.Greater(t, entries[1].Number, uint64(1<<32))
}
