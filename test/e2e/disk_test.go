package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// loopDisks are disks of the test's own, in files.
var loopDisks = part{"a loop device with a file system to mount", func() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed")
	}

	for _, name := range []string{"mkfs.ext4", "e2fsck", "losetup", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}

	return command("losetup", "-f")
}}

// command runs a program and makes what it says an error.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}

	return nil
}

// unmount waits until nobody has anything open: a loop device lets go of its file a moment after it was unmounted itself.
func unmount(t *testing.T, dir string) {
	t.Helper()

	require.Eventually(t, func() bool { return command("umount", dir) == nil }, 20*time.Second, 50*time.Millisecond, dir+" is busy")
}

// disk is a file system in a file, mounted at dir.
type disk struct {
	t          *testing.T
	image, dir string
}

// newDisk makes an ext4 file system of so many MiB in a file, and mounts it.
func newDisk(t *testing.T, image string, size int64) *disk {
	t.Helper()

	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size<<20))
	require.NoError(t, f.Close())
	require.NoError(t, command("mkfs.ext4", "-q", "-F", image))

	dir, err := os.MkdirTemp("/tmp", "gwd")
	require.NoError(t, err)

	d := &disk{t: t, image: image, dir: dir}
	d.mount()
	t.Cleanup(func() {
		d.unmount()
		require.NoError(t, os.Remove(dir))
	})

	return d
}

func (d *disk) mount() {
	d.t.Helper()
	require.NoError(d.t, command("mount", "-o", "loop", d.image, d.dir))
}

// unmount does nothing where it is not mounted.
func (d *disk) unmount() {
	d.t.Helper()

	if exec.Command("mountpoint", "-q", d.dir).Run() == nil {
		unmount(d.t, d.dir)
	}
}

// holds has the gateway keep its data on the disk.
func (d *disk) holds(g *gateway) {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(filepath.Join(d.dir, "data"), 0o700))
	require.NoError(d.t, os.Symlink(filepath.Join(d.dir, "data"), g.path("data")))
}

// fill takes all the room that is left, to the last block.
func (d *disk) fill() {
	d.t.Helper()

	f, err := os.Create(filepath.Join(d.dir, "filler"))
	require.NoError(d.t, err)

	chunk := make([]byte, 1<<20)

	for len(chunk) > 0 {
		if _, err = f.Write(chunk); err != nil {
			require.ErrorIs(d.t, err, unix.ENOSPC)
			chunk = chunk[:len(chunk)/2]
		}
	}

	require.NoError(d.t, f.Close())
}

// release gives the room back.
func (d *disk) release() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(filepath.Join(d.dir, "filler")))
}

// ext4Shutdown is EXT4_IOC_SHUTDOWN of the kernel, and noLogFlush its mode in which what is not on the disk yet is lost.
const (
	ext4Shutdown = 0x8004587d
	noLogFlush   = 2
)

// die makes every access fail from now on, and loses what is not on the disk yet, as a disk does that is pulled.
func (d *disk) die() {
	d.t.Helper()

	f, err := os.Open(d.dir)
	require.NoError(d.t, err)
	require.NoError(d.t, unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noLogFlush))
	require.NoError(d.t, f.Close())
}
