package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// TestMakeRun is the first thing that a person does. Each part has a machine of its own: namespaces in which no libvirt runs
// but the one that is meant.
func TestMakeRun(t *testing.T) {
	need(t, privateLibvirtd, networkSpaces)

	t.Run("with the libvirt daemon of the machine", func(t *testing.T) {
		d := libvirtd.New(t, libvirtd.Options{})
		quickStart(t, []string{"nsenter", "--mount", "--net", "--target", fmt.Sprint(d.PID())}, "qemu:///system", []string{"make", "run"})
	})

	t.Run("with a libvirt daemon that it starts", func(t *testing.T) {
		quickStart(t, newMachine(t), "qemu:///system", []string{"make", "run"})
	})

	t.Run("with libvirt's test driver for somebody who may not start a daemon", func(t *testing.T) {
		nobody := []string{"env", "HOME=/nonexistent", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
		quickStart(t, slices.Concat(newMachine(t), nobody), "test:///default", []string{"hack/run.sh", "bin/gateway", "no-parent"})
	})
}

// quickStart runs a command in a copy of what it needs of the repository, as `make run` is run on a clone that is built, and
// ends it with Ctrl-C. inside is the command that enters the machine.
func quickStart(t *testing.T, inside []string, uri string, command []string) {
	t.Helper()

	clone := cloneBuilt(t)
	p := startProcess(t, clone, slices.Concat(inside, []string{"env", "--chdir", clone}, command)...)

	t.Cleanup(func() {
		// The process group is make, the script and the gateway; it fails where they have ended.
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.exited
	})

	within(t, time.Minute, "three VMs are running, and the next commands are printed", func() error {
		if !p.alive() {
			t.Fatalf("it ended:\n%s", p.log)
		}

		if text := p.log.String(); !strings.Contains(text, "Try, in another terminal") {
			return fmt.Errorf("so far:\n%s", text)
		}

		return nil
	})

	said := p.log.String()
	require.Contains(t, said, "hypervisor: ")
	require.Contains(t, said, uri)
	require.NotContains(t, said, "not all VMs are running")
	require.Equal(t, []string{"running", "running", "running"}, states(t, clone), said)

	// The domains of the test driver are those of the process that opened it.
	running := func() int { return 3 }
	if uri != "test:///default" {
		running = func() int { return runningDomains(t, inside, uri) }
	}

	require.Equal(t, 3, running())

	begin := time.Now()
	require.NoError(t, syscall.Kill(-p.pid(), syscall.SIGINT))
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
	}
	require.LessOrEqual(t, time.Since(begin), 5*time.Second, "Ctrl-C ends it:\n%s", p.log)
	require.Contains(t, p.log.String(), "The VMs are as they were")
	require.Equal(t, 3, running(), "VMs that are left running")
}

// cloneBuilt copies what `make run` reads of a clone on which everything is built.
func cloneBuilt(t *testing.T) string {
	t.Helper()

	clone, err := os.MkdirTemp("/tmp", "gwe")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(clone)) })
	// Somebody who is not root works in it, too.
	require.NoError(t, os.Chmod(clone, 0o777))

	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)

	for _, name := range []string{"Makefile", "go.mod", "go.sum", "hack", "config/examples"} {
		target := filepath.Join(clone, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))

		out, err := exec.Command("cp", "-r", filepath.Join(root, name), target).CombinedOutput()
		require.NoError(t, err, string(out))
	}

	// Newer than what it is made from.
	require.NoError(t, os.Mkdir(filepath.Join(clone, "bin"), 0o755))
	out, err := exec.Command("cp", binary, filepath.Join(clone, "bin", "gateway")).CombinedOutput()
	require.NoError(t, err, string(out))

	return clone
}

// states returns the states of the quick start's VMs.
func states(t *testing.T, clone string) (states []string) {
	t.Helper()

	g := &gateway{t: t, dir: filepath.Join(clone, "quickstart")}

	objects, err := g.list("VM")
	require.NoError(t, err)

	for _, o := range objects {
		states = append(states, o.Status.State)
	}

	return states
}

func runningDomains(t *testing.T, inside []string, uri string) int {
	t.Helper()

	args := slices.Concat(inside, []string{"virsh", "--quiet", "--connect", uri, "list", "--state-running", "--name"})
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, string(out))

	return len(strings.Fields(string(out)))
}

// machine is the script of a machine's first process: nothing of this one's libvirt is seen in it, and it buries the dead.
const machine = `set -e
ip link set lo up
cp -a /etc/libvirt "$1/etc"
mount --bind "$1/etc" /etc/libvirt
for dir in /run /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do mount -t tmpfs -o mode=755 tmpfs $dir; done
echo ready
while :; do sleep 0.2; done`

// newMachine makes namespaces of processes, mounts and the network, and returns the command that enters them. All that is
// started in them ends with the test.
func newMachine(t *testing.T) (inside []string) {
	t.Helper()

	dir, err := os.MkdirTemp("/tmp", "gwe")
	require.NoError(t, err)

	p := startProcess(t, dir, "unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net",
		"bash", "-c", machine, "machine", dir)

	t.Cleanup(func() {
		p.kill()
		require.NoError(t, os.RemoveAll(dir))
	})

	eventually(t, "the machine is ready", func() error {
		if !p.alive() {
			t.Fatalf("the machine ended:\n%s", p.log)
		}

		if !strings.Contains(p.log.String(), "ready") {
			return fmt.Errorf("so far:\n%s", p.log)
		}

		return nil
	})

	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid(), p.pid()))
	require.NoError(t, err)

	return []string{"nsenter", "--mount", "--net", "--pid", "--target", strings.TrimSpace(string(first))}
}
