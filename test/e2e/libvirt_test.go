package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// hypervisor is a private libvirtd as virsh shows it.
type hypervisor struct {
	*libvirtd.Daemon

	t *testing.T
}

// newHypervisor starts a private libvirtd with QEMU, and ends it with the test.
func newHypervisor(t *testing.T) *hypervisor {
	t.Helper()

	return &hypervisor{Daemon: libvirtd.New(t, libvirtd.Options{}), t: t}
}

// under makes failures those of a subtest until the returned function is called.
func (h *hypervisor) under(t *testing.T) (restore func()) {
	before := h.t
	h.t = t

	return func() { h.t = before }
}

// host returns the document of the host that it is. The VMs idle: there may be more than this machine's CPUs stand for.
func (h *hypervisor) host() string {
	return document("Host", "qemu", fmt.Sprintf("{uri: %q, capacity: {cpus: 64, memory: 64TiB}}", h.URI()))
}

// virsh runs virsh and requires that it succeeds.
func (h *hypervisor) virsh(args ...string) string {
	h.t.Helper()

	out, err := h.Virsh(args...)
	require.NoError(h.t, err)

	return out
}

// domains returns the names of all domains, sorted.
func (h *hypervisor) domains() []string { return h.names("list", "--all", "--name") }

// networks returns the names of all networks, sorted.
func (h *hypervisor) networks() []string { return h.names("net-list", "--all", "--name") }

// definitions returns the XML of all networks as they are now.
func (h *hypervisor) definitions() string {
	h.t.Helper()

	var all strings.Builder
	for _, n := range h.networks() {
		all.WriteString(h.virsh("net-dumpxml", n))
	}

	return all.String()
}

func (h *hypervisor) names(args ...string) []string {
	h.t.Helper()

	names := strings.Fields(h.virsh(args...))
	slices.Sort(names)

	return names
}

// isRunning returns nil where a domain runs.
func (h *hypervisor) isRunning(name string) error {
	state, err := h.Virsh("domstate", name)
	if err == nil && state != "running" {
		err = fmt.Errorf("domain %s is %s", name, state)
	}

	return err
}

// identity is what differs when a domain was touched: its UUID when it was made again, the others when it was started again.
type identity struct{ uuid, id, pid string }

// identity returns that of a running domain.
func (h *hypervisor) identity(name string) identity {
	h.t.Helper()

	pid, err := os.ReadFile(h.Path("/run/libvirt/qemu/" + name + ".pid"))
	require.NoError(h.t, err)

	return identity{uuid: h.virsh("domuuid", name), id: h.virsh("domid", name), pid: strings.TrimSpace(string(pid))}
}

// watch records the lifecycle events of all domains from now until the test ends.
func (h *hypervisor) watch(t *testing.T) *logBuffer {
	t.Helper()

	return h.watchURI(t, h.URI())
}

// watchURI does it at a URI of the daemon, over a connection that is patient with it.
func (h *hypervisor) watchURI(t *testing.T, uri string) *logBuffer {
	t.Helper()

	events := &logBuffer{}
	cmd := exec.Command("virsh", "--keepalive-interval", "0", "--connect", uri, "event", "--event", "lifecycle", "--loop")
	cmd.Stdout, cmd.Stderr = events, events
	require.NoError(t, cmd.Start())

	t.Cleanup(func() {
		// It fails where the command has ended by itself.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	return events
}

// vmSpec is a VM that costs little and gives way at once.
const vmSpec = "{memory: 64MiB, shutdown: {grace: 1s}}"

// vmOn is the same on networks.
func vmOn(networks ...string) string {
	interfaces := make([]string, len(networks))
	for i, n := range networks {
		interfaces[i] = "{network: " + n + "}"
	}

	return "{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [" + strings.Join(interfaces, ", ") + "]}"
}

// restart kills the daemon and starts it again.
func (h *hypervisor) restart(t *testing.T) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	require.NoError(t, h.Restart(ctx))
}

// gone waits until neither domains nor networks of these names are left on the hypervisor.
func (h *hypervisor) gone(t *testing.T, domains, networks []string) {
	t.Helper()

	eventually(t, "virsh shows none of ours", func() error {
		left := []string{}

		for _, d := range h.domains() {
			if slices.Contains(domains, d) {
				left = append(left, d)
			}
		}

		for _, n := range h.networks() {
			if slices.Contains(networks, n) {
				left = append(left, n)
			}
		}

		if len(left) > 0 {
			return fmt.Errorf("left: %s", left)
		}

		return nil
	})
}
