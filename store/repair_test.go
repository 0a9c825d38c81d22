package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked returns what is wrong with a directory, each problem in one line.
func checked(t *testing.T, dir string) (problems []string) {
	t.Helper()

	r, err := Check(dir)
	require.NoError(t, err)

	for _, p := range r.Problems {
		problems = append(problems, p.String())
	}

	return problems
}

func TestACheckNamesWhatIsLostBehindADamage(t *testing.T) {
	dir, log, _ := filled(t)
	at := records(t, log)
	require.Empty(t, checked(t, dir))

	overwrite(t, log, at[4]+40, "\x00\x00\x00\x00")

	problems := checked(t, dir)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "can't be read, from byte")
	require.Contains(t, problems[0], "VM/o-19")
	require.Contains(t, problems[0], "gateway store check --repair")
	require.NotContains(t, problems[0], "VM/o-10")

	before := content(t, dir)

	require.Equal(t, problems, checked(t, dir))
	require.Equal(t, before, content(t, dir), "a check changes nothing")

	_, err := Open(t.Context(), Options{DataDir: dir})
	require.ErrorContains(t, err, "gateway store check")
	require.ErrorContains(t, BackupOffline(t.Context(), dir, filepath.Join(t.TempDir(), "backup")), "would be no backup")
}

func content(t *testing.T, dir string) map[string]string {
	t.Helper()

	files := map[string]string{}
	for _, name := range append([]string{storeName, idName}, logNames[:]...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)

		files[name] = string(text)
	}

	return files
}

func TestARepairKeepsWhatStandsBeforeTheDamage(t *testing.T) {
	dir, log, names := filled(t)
	at := records(t, log)

	for name, test := range map[string]struct {
		damage func(t *testing.T, dir, log string)
		keeps  int
	}{
		"a record in the middle is overwritten": {func(t *testing.T, _, log string) { overwrite(t, log, at[4]+40, "\x00\x00\x00\x00") }, 11},
		"the beginning of the file is overwritten": {func(t *testing.T, _, log string) {
			overwrite(t, log, 0, string(make([]byte, 64)))
		}, 10},
		"the file is gone": {func(t *testing.T, _, log string) { require.NoError(t, os.Remove(log)) }, 10},
		"the other file is gone": {func(t *testing.T, dir, log string) {
			for _, name := range logNames {
				if name != filepath.Base(log) {
					require.NoError(t, os.Remove(filepath.Join(dir, name)))
				}
			}
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "copy")
			copyStore(t, dir, to)
			test.damage(t, to, filepath.Join(to, filepath.Base(log)))
			require.NotEmpty(t, checked(t, to))

			done, err := Repair(to)
			require.NoError(t, err)
			require.NotEmpty(t, done.Damage)
			require.DirExists(t, done.Aside)
			require.Empty(t, checked(t, to))
			requireHolds(t, to, names[:test.keeps])

			again, err := Repair(to)
			require.NoError(t, err)
			require.Zero(t, again, "there is nothing to do")
		})
	}
}

func TestARepairGivesUpWhatFollowsAShortenedGeneration(t *testing.T) {
	s := openInternal(t, t.TempDir())
	require.NoError(t, writePair(t.Context(), s, "first"))
	require.NoError(t, writePair(t.Context(), s, "second"))

	s.log.work.Lock() // nobody else makes a checkpoint

	_, err := s.log.rotate() // a crash in the middle of one
	require.NoError(t, err)

	sealed := filepath.Base(s.log.spare.f.Name())
	dir := filepath.Join(t.TempDir(), "copy")
	copyStore(t, s.dir.path, dir)
	s.log.work.Unlock()

	at := records(t, filepath.Join(dir, sealed))
	require.NoError(t, os.Truncate(filepath.Join(dir, sealed), at[len(at)-2]))

	problems := checked(t, dir)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "says that there were")

	_, err = Repair(dir)
	require.NoError(t, err)
	requireHolds(t, dir, []string{"first"})
	require.NoError(t, s.Close())
}

func TestAStoreFileCanNotBeRepaired(t *testing.T) {
	dir, _, _ := filled(t)
	require.NoError(t, os.Truncate(filepath.Join(dir, storeName), 8192))

	problems := checked(t, dir)
	require.NotEmpty(t, problems)
	require.Contains(t, problems[0], "gateway store restore --force")

	_, err := Repair(dir)
	require.ErrorContains(t, err, "only the log can be repaired")
}
