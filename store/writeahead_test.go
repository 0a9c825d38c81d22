package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"gateway/resources"
)

// filled returns the path of a copied store, as it was when its last pair of objects was written, and their names. The log that
// holds them is returned as well.
func filled(t *testing.T) (dir, log string, names []string) {
	t.Helper()

	s := openInternal(t, t.TempDir())

	for i := range 20 {
		name := fmt.Sprintf("o-%d", i)
		require.NoError(t, writePair(t.Context(), s, name))
		names = append(names, name)

		if i == 9 {
			require.NoError(t, s.log.checkpoint())
		}
	}

	dir = filepath.Join(t.TempDir(), "copy")
	copyAtCheckpoint(t, s, dir, 0)

	log = filepath.Join(dir, filepath.Base(s.log.active.f.Name()))
	require.NoError(t, s.Close())

	return dir, log, names
}

// records returns where each record of a log begins, and where the last ends.
func records(t *testing.T, path string) (at []int64) {
	t.Helper()

	f, err := os.Open(path)
	require.NoError(t, err)

	l := &logFile{f: f}
	require.NoError(t, l.read())
	require.NoError(t, l.replay(func([]byte) error {
		at = append(at, l.end)

		return nil
	}))
	require.NoError(t, f.Close())

	return append(at, l.end)
}

func overwrite(t *testing.T, path string, at int64, with string) {
	t.Helper()

	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)

	_, err = f.WriteAt([]byte(with), at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestARecordThatACrashCutOffIsAsIfItWasNeverWritten(t *testing.T) {
	dir, log, names := filled(t)
	at := records(t, log)
	last := at[len(at)-2]

	for name, damage := range map[string]func(t *testing.T, log string){
		"the file ends in it":                  func(t *testing.T, log string) { require.NoError(t, os.Truncate(log, last+30)) },
		"the file ends in its head":            func(t *testing.T, log string) { require.NoError(t, os.Truncate(log, last+3)) },
		"a part of it is not what was written": func(t *testing.T, log string) { overwrite(t, log, last+40, "\x00\x00\x00\x00") },
		"its head is not there":                func(t *testing.T, log string) { overwrite(t, log, last, string(make([]byte, recordHeadSize))) },
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "copy")
			copyStore(t, dir, to)
			damage(t, filepath.Join(to, filepath.Base(log)))
			requireHolds(t, to, names[:len(names)-1])

			// And what is written in its place is there as well.
			s := openInternal(t, to)
			require.NoError(t, writePair(t.Context(), s, "next"))
			copyAtCheckpoint(t, s, to+"-2", 0)
			require.NoError(t, s.Close())
			requireHolds(t, to+"-2", append([]string{"next"}, names[:len(names)-1]...))
		})
	}
}

func TestALogThatIsDamagedIsNotTakenForAShorterOne(t *testing.T) {
	dir, log, _ := filled(t)
	at := records(t, log)

	for name, test := range map[string]struct {
		damage func(t *testing.T, log string)
		says   string
	}{
		"a record in the middle": {
			func(t *testing.T, log string) { overwrite(t, log, at[3]+30, "damage") },
			fmt.Sprintf("can't be read from byte %d to %d", at[3], at[4]),
		},
		"the head of a record in the middle": {
			func(t *testing.T, log string) { overwrite(t, log, at[3], "damage") }, "can't be read from byte",
		},
		"the first block":   {func(t *testing.T, log string) { overwrite(t, log, 8, "damage") }, "is not there"},
		"the file is gone":  {func(t *testing.T, log string) { require.NoError(t, os.Remove(log)) }, "a file of its log is missing"},
		"the file is empty": {func(t *testing.T, log string) { require.NoError(t, os.Truncate(log, 0)) }, "is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "copy")
			copyStore(t, dir, to)
			test.damage(t, filepath.Join(to, filepath.Base(log)))

			_, err := Open(t.Context(), Options{DataDir: to})
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestALogThatLostItsEndBeforeTheNextOneBeganIsDamaged(t *testing.T) {
	s := openInternal(t, t.TempDir())
	require.NoError(t, writePair(t.Context(), s, "a"))
	require.NoError(t, writePair(t.Context(), s, "b"))

	dir := filepath.Join(t.TempDir(), "copy")
	copyAtCheckpoint(t, s, dir, 1)

	log := filepath.Join(dir, filepath.Base(s.log.spare.f.Name()))
	require.NoError(t, s.Close())

	at := records(t, log)
	require.NoError(t, os.Truncate(log, at[len(at)-2]))

	_, err := Open(t.Context(), Options{DataDir: dir})
	require.ErrorContains(t, err, "the log after it says")
}

// While the store file can't be written, changes are taken in and confirmed, as far as the log has room.
func TestChangesStayInTheLogWhileTheStoreFileCanNotBeWritten(t *testing.T) {
	dir := t.TempDir()
	s := openInternal(t, dir)
	require.NoError(t, writePair(t.Context(), s, "before"))
	require.NoError(t, s.db.Close())

	require.NoError(t, writePair(t.Context(), s, "after"))
	require.Error(t, s.log.checkpoint())
	require.NoError(t, writePair(t.Context(), s, "later"))

	// The log is full.
	s.log.mu.Lock()
	s.log.active.end = maxLogBytes
	err := s.log.failure
	s.log.mu.Unlock()
	require.Error(t, err)
	require.Error(t, s.log.write([]op{write("more")}))
	require.NoError(t, s.Close())

	requireHolds(t, dir, []string{"before", "after", "later"})
}

func TestTheLogIsBroughtOverWhenItIsLargeEnough(t *testing.T) {
	s := openInternal(t, t.TempDir())
	large := make([]byte, 1<<20)

	for i := range 40 {
		require.NoError(t, s.journal.Append(Entry{Class: ClassEvent, Source: "webhook", Name: fmt.Sprint(i), Attributes: large[:maxEntryAttributes], Data: large}))
	}

	for range checkpointBytes >> 20 {
		require.NoError(t, s.log.write([]op{{bucket: bucketResources, key: []byte("k"), value: large}}))
	}

	require.Eventually(t, func() bool {
		s.journal.mu.Lock()
		defer s.journal.mu.Unlock()

		return s.journal.held.len() == 0
	}, 10*time.Second, 5*time.Millisecond)

	entries, err := s.journal.Query(t.Context(), Query{Before: 11})
	require.NoError(t, err)
	require.Len(t, entries, 10)
	require.NoError(t, s.log.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketResources).Delete([]byte("k")) }))
	require.NoError(t, s.Close())
}

func TestAStoreOfTheFirstVersionGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := openInternal(t, dir)
	require.NoError(t, writePair(t.Context(), s, "a"))
	require.NoError(t, s.Close())

	db, err := bbolt.Open(filepath.Join(dir, storeName), fileMode, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		require.NoError(t, tx.Bucket(bucketMeta).Delete(metaLog))

		return tx.Bucket(bucketMeta).Put(metaVersion, []byte("1"))
	}))
	require.NoError(t, db.Close())

	for _, name := range logNames {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}

	requireHolds(t, dir, []string{"a"})

	s = openInternal(t, dir)
	require.NoError(t, s.st.Create(t.Context(), resources.NewVMConfig("b")))
	require.NoError(t, s.Close())
	requireHolds(t, dir, []string{"a"})
}

func FuzzDecodeOps(f *testing.F) {
	f.Add(appendOps(nil, []op{write("a"), {bucket: bucketKeys, key: []byte("k"), value: []byte("v")}, {bucket: bucketJournal, key: numberKey(7)}}))

	f.Fuzz(func(t *testing.T, b []byte) {
		var ops []op
		if err := decodeOps(b, func(o op) { ops = append(ops, o) }); err != nil {
			return
		}

		var again []op

		require.NoError(t, decodeOps(appendOps(nil, ops), func(o op) { again = append(again, o) }))
		require.Equal(t, ops, again)
	})
}
