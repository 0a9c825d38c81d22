package libvirtd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a daemon.
type Options struct {
	// KVM leaves /dev/kvm as it is. By default it is hidden, so that domains are emulated: slow, but the same everywhere.
	KVM bool
	// User is who QEMU runs as; default root.
	User string
	// TLS has it listen on the loopback interface of its own network too, for clients with a certificate.
	TLS bool
}

// Daemon is a private libvirtd, with all that it started.
type Daemon struct {
	root   string
	parent *exec.Cmd
	// stdin takes commands for the parent; its end is the end of everything.
	stdin  io.WriteCloser
	stdout *bufio.Reader
	// authority is nil without TLS.
	authority *authority

	mu  sync.Mutex // guards pid
	pid int
}

// startTime bounds how long a daemon may take to answer.
const startTime = 60 * time.Second

// New starts a daemon for a test, and ends it with the test. It skips the test where there can be none.
func New(t testing.TB, options Options) *Daemon {
	t.Helper()
	Need(t)

	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()

	d, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon said:\n%s", d.Log())
		}

		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})

	return d
}

// Start starts a daemon, and returns when it answers.
func Start(ctx context.Context, options Options) (*Daemon, error) {
	// Socket paths have 107 characters at most.
	root, err := os.MkdirTemp("/tmp", "gwlv")
	if err != nil {
		return nil, fmt.Errorf("error making the directory of a daemon: %w", err)
	}

	d := &Daemon{root: root}
	if err := d.launch(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("error starting a private libvirtd: %w\n%s", err, d.Log()), d.Close())
	}

	return d, nil
}

func (d *Daemon) launch(ctx context.Context, options Options) error {
	if err := d.configure(cmp.Or(options.User, "root"), options.TLS); err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}

	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), parentRoot+"="+d.root, parentKVM+"="+strconv.FormatBool(options.KVM))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		// Ctrl-C is for the test; what it started ends when the test closes the pipe.
		Setpgid: true,
	}

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}

	if d.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}

	if err := cmd.Start(); err != nil {
		return err
	}

	d.parent, d.stdout = cmd, bufio.NewReader(stdout)

	return d.started(ctx)
}

// configure writes the private /etc/libvirt, and makes the directories that stand for the machine's own.
func (d *Daemon) configure(user string, tls bool) error {
	for _, m := range mounts {
		if err := os.MkdirAll(filepath.Join(d.root, m.name), 0o755); err != nil {
			return err
		}
	}

	if err := os.MkdirAll(d.Path("/var/lib/libvirt/images"), 0o755); err != nil {
		return err
	}

	listen := ""

	if tls {
		var err error
		if listen, err = d.configureTLS(); err != nil {
			return fmt.Errorf("error making certificates: %w", err)
		}
	}

	for name, text := range map[string]string{
		"libvirtd.conf": "auth_unix_rw = \"none\"\nunix_sock_rw_perms = \"0700\"\n" + listen,
		"qemu.conf": fmt.Sprintf("user = %q\n", user) + "group = \"root\"\nsecurity_driver = \"none\"\nnamespaces = []\n" +
			"cgroup_controllers = []\nstdio_handler = \"file\"\n",
		"network.conf": "",
	} {
		if err := os.WriteFile(filepath.Join(d.root, "etc", name), []byte(text), 0o600); err != nil {
			return err
		}
	}

	return nil
}

// started reads the daemon's PID from the parent and waits until the daemon answers.
func (d *Daemon) started(ctx context.Context) error {
	line, err := d.stdout.ReadString('\n')
	if err != nil {
		return fmt.Errorf("error reading the daemon's PID: %w", err)
	}

	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("the parent of the daemon said: %s", line)
	}

	d.mu.Lock()
	d.pid = pid
	d.mu.Unlock()

	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
		if err == nil {
			return conn.Close()
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *Daemon) socket() string { return filepath.Join(d.root, "run", "libvirt-sock") }

// URI returns where QEMU is reached, from everywhere on this machine.
func (d *Daemon) URI() string { return "qemu+unix:///system?socket=" + d.socket() }

// TestURI returns where libvirt's test driver is reached inside the daemon.
func (d *Daemon) TestURI() string { return "test+unix:///default?socket=" + d.socket() }

// Path returns where a path of the daemon's, as /var/lib/libvirt/images/x, is outside of its namespace.
func (d *Daemon) Path(path string) string {
	for _, m := range mounts {
		if rest, inside := strings.CutPrefix(path, m.target); inside && (rest == "" || rest[0] == '/') {
			return filepath.Join(d.root, m.name, rest)
		}
	}

	return path
}

// PID returns the daemon's process id.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.pid
}

// Log returns what the daemon wrote.
func (d *Daemon) Log() string {
	text, err := os.ReadFile(filepath.Join(d.root, "libvirtd.log"))
	if err != nil {
		return err.Error()
	}

	return string(text)
}

// Kill ends the daemon as kill -9 does. Its domains run on.
func (d *Daemon) Kill() error {
	pid := d.PID()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("error killing the daemon: %w", err)
	}

	deadline := time.Now().Add(startTime)

	for unix.Kill(pid, 0) == nil {
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon does not die")
		}

		time.Sleep(5 * time.Millisecond)
	}

	return nil
}

// Stop makes the daemon hang: it keeps its connections and answers nothing.
func (d *Daemon) Stop() error { return unix.Kill(d.PID(), unix.SIGSTOP) }

// Cont lets a stopped daemon go on.
func (d *Daemon) Cont() error { return unix.Kill(d.PID(), unix.SIGCONT) }

// Restart kills the daemon and starts it again. Its domains run on; those of the test driver are gone.
func (d *Daemon) Restart(ctx context.Context) error {
	if err := d.Kill(); err != nil {
		return err
	}

	if _, err := io.WriteString(d.stdin, commandStart+"\n"); err != nil {
		return fmt.Errorf("error starting the daemon again: %w", err)
	}

	return d.started(ctx)
}

// Close ends the daemon with everything that it started, and removes its files.
func (d *Daemon) Close() error {
	var errs []error

	if d.stdin != nil {
		errs = append(errs, d.stdin.Close())
	}

	if d.parent != nil && d.parent.Process != nil {
		errs = append(errs, d.parent.Wait())
	}

	if err := errors.Join(append(errs, os.RemoveAll(d.root))...); err != nil {
		return fmt.Errorf("error ending a private libvirtd: %w", err)
	}

	return nil
}

// Virsh runs virsh on the daemon's QEMU.
func (d *Daemon) Virsh(args ...string) (string, error) { return virsh(d.URI(), args) }

// TestVirsh runs virsh on the test driver inside the daemon.
func (d *Daemon) TestVirsh(args ...string) (string, error) { return virsh(d.TestURI(), args) }

func virsh(uri string, args []string) (string, error) {
	out, err := exec.Command("virsh", append([]string{"--quiet", "--connect", uri}, args...)...).CombinedOutput()
	text := strings.TrimSpace(string(out))

	if err != nil {
		return text, fmt.Errorf("error running virsh %s: %w: %s", strings.Join(args, " "), err, text)
	}

	return text, nil
}
