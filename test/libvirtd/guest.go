package libvirtd

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Guest is a kernel and an initial file system that boot in a few seconds of emulation, get their address by DHCP, and
// power off when asked.
type Guest struct {
	Kernel, Initrd, Cmdline string
}

// guestFiles are the programs of the guest.
//
//go:embed guest
var guestFiles embed.FS

// guestModules are the modules of the kernel that it needs, in the order in which they need each other.
var guestModules = []string{
	"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "failover", "net_failover",
	"virtio_net", "virtio_blk", "virtio_balloon", "virtio_console", "button", "evdev",
	"scsi_common", "scsi_mod", "virtio_scsi", "cdrom", "sr_mod", "isofs",
}

const guestKernel = "linux-image-cloud-amd64"

// guestCmdline is for a machine whose time stands still now and then, as that of an emulated one does on busy processors: the
// kernel would panic when it counts too few ticks of the timer in its first milliseconds (no_timer_check), and stay so
// (panic). Trying its ciphers is a tenth of a boot, and nobody needs them.
const guestCmdline = "console=ttyS0 quiet no_timer_check panic=1 cryptomgr.notests"

// BuildGuest returns the guest, which it makes from Debian's packages and keeps in the user's cache. The first time it
// takes a download of 30 MB.
func BuildGuest(ctx context.Context) (*Guest, error) {
	cache, err := guestCache()
	if err != nil {
		return nil, fmt.Errorf("error preparing the cache of the guest: %w", err)
	}

	unlock, err := lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, fmt.Errorf("error locking the cache of the guest: %w", err)
	}
	defer unlock()

	g := &Guest{
		Kernel: filepath.Join(cache, "vmlinuz"), Initrd: filepath.Join(cache, "initrd"),
		Cmdline: guestCmdline,
	}

	if _, err := os.Stat(g.Initrd); err == nil {
		return g, nil
	}

	work, err := os.MkdirTemp(cache, "work")
	if err != nil {
		return nil, fmt.Errorf("error preparing the cache of the guest: %w", err)
	}

	err = g.build(ctx, work)
	if err = errors.Join(err, os.RemoveAll(work)); err != nil {
		return nil, fmt.Errorf("error building the guest: %w", err)
	}

	return g, nil
}

// guestCache is a directory for each version of what the guest is made of.
func guestCache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		// A service without a home has none.
		base = os.TempDir()
	}

	sum := sha256.New()
	sum.Write([]byte(strings.Join(guestModules, " ")))

	if err := fs.WalkDir(guestFiles, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		text, err := guestFiles.ReadFile(name)
		sum.Write(text)

		return err
	}); err != nil {
		return "", err
	}

	dir := filepath.Join(base, "gateway-guest", fmt.Sprintf("%x", sum.Sum(nil)[:8]))

	return dir, os.MkdirAll(dir, 0o755)
}

// lockFile lets one process at a time build.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	// The lock ends with its descriptor.
	return func() { _ = f.Close() }, nil
}

// build makes the guest in a directory, and moves it into place when it is whole.
func (g *Guest) build(ctx context.Context, work string) error {
	kernel, err := kernelPackage(ctx)
	if err != nil {
		return err
	}

	if _, err := run(ctx, work, "apt-get", "-o", "APT::Sandbox::User=root", "download", "busybox-static", kernel); err != nil {
		return err
	}

	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}

	for _, p := range packages {
		if _, err := run(ctx, work, "dpkg", "-x", p, "packages"); err != nil {
			return err
		}
	}

	root := filepath.Join(work, "root")
	if err := fillGuest(filepath.Join(work, "packages"), root); err != nil {
		return err
	}

	busybox := filepath.Join(root, "bin", "busybox")
	if _, err := run(ctx, root, busybox, "sh", "-c", "find . | "+busybox+" cpio -o -H newc | "+busybox+" gzip > ../initrd"); err != nil {
		return err
	}

	images, err := filepath.Glob(filepath.Join(work, "packages", "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return errors.Join(err, fmt.Errorf("package %s has %d kernels", kernel, len(images)))
	}

	if err := os.Rename(images[0], g.Kernel); err != nil {
		return err
	}

	return os.Rename(filepath.Join(work, "initrd"), g.Initrd)
}

// kernelPackage returns the package that the current kernel for virtual machines is in.
func kernelPackage(ctx context.Context) (string, error) {
	out, err := run(ctx, "/", "apt-cache", "depends", guestKernel)
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(out) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); found {
			return "linux-image-" + name, nil
		}
	}

	return "", fmt.Errorf("apt knows no kernel for %s: run apt-get update", guestKernel)
}

// fillGuest puts together the files of the guest.
func fillGuest(packages, root string) error {
	for _, dir := range []string{"bin", "dev", "proc", "sys", "modules", "seed", "etc/acpi/PWRF", "var/log", "var/run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}

	for from, to := range map[string]string{"guest/init": "init", "guest/lease": "bin/lease", "guest/agent": "bin/agent", "guest/power": "etc/acpi/PWRF/00000080"} {
		text, err := guestFiles.ReadFile(from)
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(root, to), text, 0o755); err != nil {
			return err
		}
	}

	if err := os.Rename(filepath.Join(packages, "bin", "busybox"), filepath.Join(root, "bin", "busybox")); err != nil {
		return err
	}

	return copyModules(packages, filepath.Join(root, "modules"))
}

// copyModules takes over the modules that the kernel has not built in.
func copyModules(packages, to string) error {
	var order []string

	for _, name := range guestModules {
		found := ""

		err := filepath.WalkDir(filepath.Join(packages, "lib", "modules"), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(path) == name+".ko" {
				found = path
			}

			return err
		})
		if err != nil {
			return err
		}

		if found == "" {
			continue
		}

		if err := os.Rename(found, filepath.Join(to, name+".ko")); err != nil {
			return err
		}

		order = append(order, name)
	}

	return os.WriteFile(filepath.Join(to, "order"), []byte(strings.Join(order, "\n")+"\n"), 0o644)
}

func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir

	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("error running %s: %w: %s", filepath.Base(name), err, strings.TrimSpace(string(out)))
	}

	return string(out), nil
}
