package libvirtd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The parent is this program once more, between the test and the daemon. It stands in namespaces of its own, and adopts
// what the daemon leaves behind: where the machine's first process is slow to collect dead processes, libvirt takes two
// seconds to see that a domain is off. When its input ends, because the test closed it or died, it ends everything.
const (
	parentRoot   = "GATEWAY_TEST_LIBVIRTD_ROOT"
	parentKVM    = "GATEWAY_TEST_LIBVIRTD_KVM"
	commandStart = "start"
)

// mounts are the directories of the machine's libvirt that are covered by private ones.
var mounts = []struct{ name, target string }{
	{"run", "/run/libvirt"},
	{"lib", "/var/lib/libvirt"},
	{"cache", "/var/cache/libvirt"},
	{"log", "/var/log/libvirt"},
	{"etc", "/etc/libvirt"},
}

func init() {
	root := os.Getenv(parentRoot)
	if root == "" {
		return
	}

	if err := runParent(root, os.Getenv(parentKVM) == "true"); err != nil {
		fmt.Fprintf(os.Stderr, "error in the parent of a private libvirtd: %s\n", err)
		os.Exit(1)
	}

	os.Exit(0)
}

func runParent(root string, kvm bool) error {
	// Otherwise a program that the daemon starts, were it this one, would become a parent too.
	for _, name := range []string{parentRoot, parentKVM} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}

	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("error becoming the reaper of orphans: %w", err)
	}

	died := make(chan os.Signal, 16)
	signal.Notify(died, syscall.SIGCHLD)

	defer killAll()

	if err := enter(root, kvm); err != nil {
		return err
	}

	// From here on every child is collected by reap.
	go func() {
		for range died {
			reap()
		}
	}()

	if err := startDaemon(root); err != nil {
		return err
	}

	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		if input.Text() != commandStart {
			return fmt.Errorf("there is no command %q", input.Text())
		}

		if err := startDaemon(root); err != nil {
			return err
		}
	}

	return input.Err()
}

// enter makes the namespaces into a machine for the daemon.
func enter(root string, kvm bool) error {
	// Of the network only what is in the new namespace is to be seen.
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("error mounting /sys: %w", err)
	}

	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}

		if err := unix.Mount(filepath.Join(root, m.name), m.target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("error covering %s: %w", m.target, err)
		}
	}

	if !kvm {
		if err := hideKVM(filepath.Join(root, "dev")); err != nil {
			return err
		}
	}

	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("error bringing lo up: %w: %s", err, out)
	}

	return nil
}

// devices are what QEMU, libvirt and their helpers open.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "net", "fuse", "loop-control", "vhost-net"}

// hideKVM covers /dev with one that has no kvm. A device that merely does not work would not do: libvirt takes one that it
// may open for a change of the host, and looks at QEMU's abilities anew at every call, which takes seconds.
func hideKVM(private string) error {
	for _, name := range devices {
		from, to := filepath.Join("/dev", name), filepath.Join(private, name)

		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}

		if err != nil {
			return err
		}

		if info.IsDir() {
			err = os.MkdirAll(to, 0o755)
		} else if err = os.MkdirAll(private, 0o755); err == nil {
			err = os.WriteFile(to, nil, 0o600)
		}

		if err == nil {
			err = unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
		}

		if err != nil {
			return fmt.Errorf("error making the private /dev/%s: %w", name, err)
		}
	}

	for link, to := range map[string]string{"fd": "/proc/self/fd", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, filepath.Join(private, link)); err != nil {
			return err
		}
	}

	return unix.Mount(private, "/dev", "", unix.MS_BIND|unix.MS_REC, "")
}

// startDaemon starts libvirtd and says its PID.
func startDaemon(root string) error {
	log, err := os.OpenFile(filepath.Join(root, "libvirtd.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the daemon has a descriptor of its own

	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()

	const binary = "/usr/sbin/libvirtd"

	args := []string{binary, "-f", "/etc/libvirt/libvirtd.conf", "-p", filepath.Join(root, "libvirtd.pid")}
	if _, err := os.Stat(filepath.Join(root, "etc", "pki")); err == nil {
		args = append(args, "--listen")
	}

	pid, err := syscall.ForkExec(binary, args,
		&syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), log.Fd(), log.Fd()}})
	if err != nil {
		return fmt.Errorf("error starting libvirtd: %w", err)
	}

	_, err = fmt.Println(pid)

	return err
}

// reap collects the children that are dead.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}

		if err != nil || pid <= 0 {
			return
		}
	}
}

// killAll ends all children. What they had started becomes a child of ours when they die, and goes with the next round.
func killAll() {
	for {
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return
		}

		for _, pid := range children {
			// It fails where the child died by itself.
			_ = unix.Kill(pid, unix.SIGKILL)
		}

		reap()
		time.Sleep(10 * time.Millisecond)
	}
}

func childrenOf(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}

	var children []int

	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}

		// The name of the program is in brackets and may hold anything: what follows counts from the last one.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")

		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}

		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil {
			children = append(children, pid)
		}
	}

	return children
}
