package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gateway/resources"
)

// write makes a file and its directories.
func write(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// errorsOf returns the errors of the entries by their path below the root.
func errorsOf(root string, s Snapshot) map[string]string {
	found := map[string]string{}

	for path, look := range s.Files {
		relative, err := filepath.Rel(root, path)
		if err != nil {
			panic(err)
		}

		found[relative] = look.Err
	}

	return found
}

func TestCaseS21EditorsFilesAreIgnored(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "f.yaml"), "a: 1")

	for _, name := range []string{
		"#f.yaml#", "4913", ".f.yaml.swp", "f.yaml.swp", "f.yaml~", "f.yaml.tmp", ".f.yaml.Xa3f9K", ".hidden.yaml", "README.md", "sedXYZ", ".git/config.yaml", "..data/x.yaml",
	} {
		write(t, filepath.Join(root, name), "a: 2")
	}

	require.NoError(t, os.Symlink("user@host.1234:567", filepath.Join(root, ".#f.yaml")))

	s := NewScanner(root).Scan(true)
	require.True(t, s.Available)
	require.Equal(t, map[string]string{"f.yaml": ""}, errorsOf(root, s))
}

func TestCaseS25OneBadEntryDoesNotStopTheOthers(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "good.yaml"), "a: 1")
	write(t, filepath.Join(root, "sub/good.yml"), "a: 1")
	write(t, filepath.Join(outside, "linked.json"), "{}")
	write(t, filepath.Join(outside, "dir/inside.yaml"), "a: 1")
	require.NoError(t, os.Mkdir(filepath.Join(root, "dir.yaml"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo.yaml"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "large.yaml"), bytes.Repeat([]byte("#"), MaxBytes+1), 0o644))

	for link, target := range map[string]string{
		"self.yaml": "self.yaml", "nowhere.yaml": "nothing", "linked.json": filepath.Join(outside, "linked.json"),
		"sub/up": "..", "other": filepath.Join(outside, "dir"), "null.yaml": "/dev/null", "again": "sub",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}

	got := errorsOf(root, NewScanner(root).Scan(true))

	require.Equal(t, map[string]string{
		"good.yaml": "", "sub/good.yml": "", "linked.json": "", "other/inside.yaml": "",
		"dir.yaml":     "is a directory, not a file",
		"fifo.yaml":    "is not a regular file (p---------)",
		"null.yaml":    "is not a regular file (Dc---------)",
		"large.yaml":   fmt.Sprintf("%d bytes, at most %d are allowed", MaxBytes+1, MaxBytes),
		"self.yaml":    "too many levels of symbolic links",
		"nowhere.yaml": "the symbolic link leads nowhere",
		"sub/up":       "leads to " + root + ", which is read already",
		"again":        "leads to " + root + "/sub, which is read already",
	}, got)
}

func TestCaseS28ARootThatIsNotThere(t *testing.T) {
	root := filepath.Join(t.TempDir(), "documents.d")
	scanner := NewScanner(root)

	s := scanner.Scan(true)
	require.False(t, s.Available)
	require.Equal(t, resources.ReasonWaiting, s.Reason)
	require.NoDirExists(t, root, "it is not made")

	write(t, root, "a file")
	s = scanner.Scan(true)
	require.False(t, s.Available)
	require.Equal(t, "is not a directory", s.Message)
}

func TestCaseS28AnUnmountedRootIsNotAnEmptyOne(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), "a: 1")

	scanner := NewScanner(root)
	require.True(t, scanner.Scan(true).Available)

	scanner.device++ // as if the file system that had the files were another one
	require.NoError(t, os.Remove(filepath.Join(root, "a.yaml")))
	require.False(t, scanner.Scan(false).Available)

	write(t, filepath.Join(root, "b.yaml"), "a: 1")
	require.True(t, scanner.Scan(false).Available, "with files in it, it is the root")
}

func TestCaseS28WhatIsBelowAMountThatIsAwayIsNotGone(t *testing.T) {
	root, mount := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), "a: 1")
	write(t, filepath.Join(root, "sub/b.yaml"), "a: 1")
	write(t, filepath.Join(mount, "c.yaml"), "a: 1")
	require.NoError(t, os.Symlink(mount, filepath.Join(root, "link")))

	scanner := NewScanner(root)
	require.Len(t, scanner.Scan(true).Files, 3)

	// As if sub had been on another file system, which is unmounted, and the target of the link too.
	scanner.dirs[filepath.Join(root, "sub")].id.device++
	require.NoError(t, os.Remove(filepath.Join(root, "sub/b.yaml")))
	require.NoError(t, os.RemoveAll(mount))

	for range 2 {
		s := scanner.Look([]string{root, filepath.Join(root, "sub")})
		require.Len(t, s.Files, 1)
		require.True(t, s.hides(filepath.Join(root, "sub/b.yaml")))
		require.True(t, s.hides(filepath.Join(root, "link/c.yaml")))
	}

	require.NoError(t, os.Remove(filepath.Join(root, "link")))

	s := scanner.Scan(false)
	require.False(t, s.hides(filepath.Join(root, "link/c.yaml")), "taken away on purpose")
}

// asNobody runs f without the rights of root: root reads everything.
func asNobody(t *testing.T, f func()) {
	t.Helper()

	if os.Geteuid() != 0 {
		f()

		return
	}

	const nobody = 65534

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	require.NoError(t, unix.Setfsuid(nobody))
	defer func() { require.NoError(t, unix.Setfsuid(0)) }()

	f()
}

func TestCaseS25WhatMayNotBeReadIsNamedAndHidesWhatIsBelow(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755)) // of the test, made for its owner alone
	write(t, filepath.Join(root, "good.yaml"), "a: 1")
	write(t, filepath.Join(root, "secret.yaml"), "a: 1")
	write(t, filepath.Join(root, "sub/below.yaml"), "a: 1")
	require.NoError(t, os.Chmod(filepath.Join(root, "secret.yaml"), 0))
	require.NoError(t, os.Chmod(filepath.Join(root, "sub"), 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(filepath.Join(root, "sub"), 0o755)) })

	var s Snapshot

	asNobody(t, func() { s = NewScanner(root).Scan(true) })

	require.True(t, s.Available)
	require.Equal(t, map[string]string{"good.yaml": "", "secret.yaml": "permission denied"}, errorsOf(root, s))
	require.Equal(t, map[string]string{filepath.Join(root, "sub"): "permission denied"}, s.Unreadable)
	require.True(t, s.hides(filepath.Join(root, "sub/below.yaml")))
	require.False(t, s.hides(filepath.Join(root, "subway.yaml")))

	require.NoError(t, os.Chmod(root, 0))
	asNobody(t, func() { s = NewScanner(root).Scan(true) })
	require.NoError(t, os.Chmod(root, 0o755))
	require.False(t, s.Available)
	require.Equal(t, resources.ReasonUnreadable, s.Reason)
}

func TestCaseS24EditsThatChangeNeitherSizeNorTimeAreFoundByContent(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.yaml")
	write(t, path, "a: 1")

	scanner := NewScanner(root)
	before := scanner.Scan(true).Files[path]

	// As if the file system had noted nothing of this edit, as it does with memory maps until they are written back.
	write(t, path, "a: 2")

	look, ok := lookAt(path, nil, false)
	require.True(t, ok)

	stale := before
	stale.stamp = look.stamp
	scanner.dirs[root].files[path] = stale

	require.Equal(t, before.Digest, scanner.Scan(false).Files[path].Digest)
	require.Equal(t, resources.Digest([]byte("a: 2")), scanner.Scan(true).Files[path].Digest)
}

func TestAVerifyingScanReadsABoundedAmountAndGoesOnWhereItStopped(t *testing.T) {
	root := t.TempDir()
	content := bytes.Repeat([]byte("#"), MaxBytes)

	for i := range 40 { // 160 MiB, sparse for the disk but not for the budget
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%02d.yaml", i)), nil, 0o644))
		require.NoError(t, os.Truncate(filepath.Join(root, fmt.Sprintf("%02d.yaml", i)), int64(len(content))))
	}

	scanner := NewScanner(root)
	scanner.Scan(false)

	read := map[string]bool{}

	for range 3 {
		chosen := scanner.toVerify()
		require.Len(t, chosen, verifyBytes/MaxBytes)

		for path := range chosen {
			read[path] = true
			look := scanner.dirs[root].files[path]
			look.verified = scanner.passes
			scanner.dirs[root].files[path] = look
		}
	}

	require.Len(t, read, 40)
}

func TestALookAtOneDirectorySeesWhatAScanSees(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), "a: 1")
	write(t, filepath.Join(root, "sub/b.yaml"), "a: 1")
	require.NoError(t, os.Symlink("sub", filepath.Join(root, "link")))

	scanner := NewScanner(root)
	scanner.Scan(true)

	write(t, filepath.Join(root, "a.yaml"), "a: 22")
	require.NoError(t, os.Remove(filepath.Join(root, "sub/b.yaml")))
	write(t, filepath.Join(root, "sub/c.yaml"), "a: 3")

	looked := scanner.Look([]string{root, filepath.Join(root, "sub")})
	require.Equal(t, map[string]string{"a.yaml": "", "sub/c.yaml": "", "link": "leads to " + root + "/sub, which is read already"}, errorsOf(root, looked))

	write(t, filepath.Join(root, "new/deep/d.yaml"), "a: 4")
	looked = scanner.Look([]string{root})
	require.Contains(t, looked.Files, filepath.Join(root, "new/deep/d.yaml"))
	require.Equal(t, NewScanner(root).Scan(true).Files[filepath.Join(root, "a.yaml")].Digest, looked.Files[filepath.Join(root, "a.yaml")].Digest)
}

func TestARootWithinARootIsLeftToItself(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "inner")
	write(t, filepath.Join(root, "a.yaml"), "a: 1")
	write(t, filepath.Join(inner, "b.yaml"), "a: 1")

	require.Len(t, NewScanner(root, root, inner).Scan(true).Files, 1)
	require.Len(t, NewScanner(inner, root, inner).Scan(true).Files, 1)
}

func BenchmarkScan(b *testing.B) {
	root := b.TempDir()
	for i := range 5000 {
		write(b, filepath.Join(root, fmt.Sprintf("%d/%d.yaml", i%50, i)), fmt.Sprintf("a: %d", i))
	}

	scanner := NewScanner(root)
	scanner.Scan(true)

	for _, verify := range []bool{false, true} {
		b.Run(fmt.Sprintf("verify=%t", verify), func(b *testing.B) {
			start := time.Now()

			for b.Loop() {
				require.Len(b, scanner.Scan(verify).Files, 5000)
			}

			b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N)/5000, "µs/file")
		})
	}
}
