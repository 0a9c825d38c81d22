package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCaseV63CrashLoopOnQEMU has a QEMU that dies again and again: it is started ever more rarely, which is said with the count, and a
// stop does not wait for the next start.
func TestCaseV63CrashLoopOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 1h")
	g.write("host.yaml", h.host())
	g.start()
	g.write("vm.yaml", document("VM", "fails", vmSpec))
	g.running("fails")

	// Started at once, after 10 and after 20 s; the next start would be after 40 s.
	for crash := range 4 {
		eventually(t, "it runs", func() error { return h.isRunning("fails") })

		require.NoError(t, syscall.Kill(number(t, h.identity("fails").pid), syscall.SIGKILL))
		eventually(t, fmt.Sprintf("crash %d is seen", crash+1), func() error {
			if now, err := h.Virsh("domid", "fails"); err != nil || now == fmt.Sprint(crash+1) {
				return fmt.Errorf("%s %w", now, err)
			}

			return nil
		})
	}

	g.reason(t, "fails", "CrashLoop")

	o, err := g.get("VM", "fails")
	require.NoError(t, err)
	require.Contains(t, o.Status.condition("Converged").Message, "it was started again 3 times")

	g.cli("stop", "fails")
	within(t, stretched(5*time.Second), "it is stopped", func() error {
		o, err := g.get("VM", "fails")
		if err == nil && (o.Status.State != "stopped" || !isTrue(o.Status.condition("Converged"))) {
			err = fmt.Errorf("%+v", o.Status)
		}

		return err
	})

	g.cli("declared", "fails")
	within(t, stretched(5*time.Second), "a fresh start is not held back", func() error { return h.isRunning("fails") })
	g.stop()
}

// TestCaseV81DeletionsEndOnQEMU deletes a VM that never ran, one whose create is still tried, one whose domain is gone already and one
// whose host is away: each ends, or says what it waits for, and nothing of any is left.
func TestCaseV81DeletionsEndOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 1h\ndeletions: {max: 100%, free: 100}")
	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.88.0.0/24}")))
	g.start()

	const parts = ", shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 16MiB, onDelete: remove}]}"

	all := map[string]string{
		"vm-off": "{memory: 64MiB, power: stopped" + parts, "vm-huge": "{memory: 32TiB" + parts, "vm-gone": "{memory: 64MiB" + parts, "vm-away": "{memory: 64MiB" + parts,
	}
	for name, spec := range all {
		g.write(name+".yaml", document("VM", name, spec))
	}

	g.running("vm-gone", "vm-away")
	g.reason(t, "vm-off", "Converged")
	g.reason(t, "vm-huge", "HypervisorFailed")

	// Held, so that it is not made again.
	g.cli("hold", "vm", "vm-gone")
	h.virsh("destroy", "vm-gone")
	h.virsh("undefine", "vm-gone")

	for _, name := range []string{"vm-off", "vm-huge", "vm-gone"} {
		g.remove(name + ".yaml")
	}

	g.cli("release", "vm", "vm-gone")
	eventually(t, "three are gone", func() error {
		objects, err := g.list("VM")
		if err == nil && len(objects) != 1 {
			err = fmt.Errorf("%+v", objects)
		}

		return err
	})
	require.Equal(t, []string{"vm-away"}, h.domains())
	require.Equal(t, []string{"vm-away.root.qcow2"}, volumes(t, h))

	before := h.identity("vm-away")

	require.NoError(t, h.Kill())
	g.all(t, "qemu", "unknown", 1)
	g.remove("vm-away.yaml")
	g.reason(t, "vm-away", "HostUnreachable")
	require.Contains(t, g.cli("describe", "VM", "vm-away"), "host qemu")

	h.restart(t)
	g.none("VM")
	emptied(t, h)
	require.Empty(t, volumes(t, h))
	require.ErrorIs(t, syscall.Kill(number(t, before.pid), 0), syscall.ESRCH, "its QEMU has ended")
	g.stop()
}

// number is a text as one.
func number(t *testing.T, text string) (n int) {
	t.Helper()

	_, err := fmt.Sscan(strings.TrimSpace(text), &n)
	require.NoError(t, err)

	return n
}
