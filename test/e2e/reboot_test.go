package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// reboot ends everything on the hypervisor at once, and starts its daemon with nothing of what is kept in memory.
func (h *hypervisor) reboot(t *testing.T) {
	t.Helper()

	var pids []int

	for _, pattern := range []string{"/run/libvirt/qemu", "/run/libvirt/network"} {
		files, err := filepath.Glob(filepath.Join(h.Path(pattern), "*.pid"))
		require.NoError(t, err)

		for _, f := range files {
			// The daemon's own is there, too.
			if pid := number(t, string(readFile(t, f))); pid != h.PID() {
				pids = append(pids, pid)
			}
		}
	}

	left := h.left()

	// It sees nothing of what follows.
	require.NoError(t, h.Stop())

	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			require.ErrorIs(t, err, syscall.ESRCH)
		}
	}

	for _, what := range left {
		if name, isLink := strings.CutPrefix(what, "link "); isLink {
			name, _, _ = strings.Cut(strings.TrimSuffix(name, ":"), "@")
			// The taps of guests go with their QEMU.
			_, _ = h.inNet("ip", "link", "delete", name)
		}
	}

	for _, dir := range []string{"/run/libvirt/qemu", "/run/libvirt/network", "/run/libvirt/storage"} {
		files, err := filepath.Glob(filepath.Join(h.Path(dir), "*"))
		require.NoError(t, err)

		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				require.NoError(t, os.Remove(f))
			}
		}
	}

	links, err := h.inNet("ip", "-o", "link")
	require.NoError(t, err)
	require.NotContains(t, links, "gw")

	h.restart(t)
}

// TestAHostReboots has a host whose guests, networks and pools are off when it comes back: what was declared is there again, on the
// same disks, and what was to be off is off.
func TestAHostReboots(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 1h")
	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: nat, subnet: 10.89.0.0/24}")))
	g.start()

	const parts = "memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 16MiB, onDelete: remove}]"

	g.write("vms.yaml", documents(
		document("VM", "vm-on", "{"+parts+"}"), document("VM", "vm-off", "{power: stopped, "+parts+"}"),
		// libvirt starts this one, since somebody told it to.
		document("VM", "vm-auto", "{power: stopped, memory: 64MiB, shutdown: {grace: 1s}}"),
		// What ended with its host did not end by itself.
		document("VM", "vm-stays", "{onCrash: stay-off, onGuestShutdown: stay-off, "+parts+"}"),
	))
	g.running("vm-on", "vm-stays")
	g.reason(t, "vm-off", "Converged")
	g.reason(t, "vm-auto", "Converged")
	h.virsh("autostart", "vm-auto")

	disk := volumeFile(t, h, "vm-on.root.qcow2")
	before, inode := h.identity("vm-on"), inodeOf(t, disk)

	h.reboot(t)
	eventually(t, "what is to run does", func() error {
		for _, name := range []string{"vm-on", "vm-stays"} {
			if err := h.isRunning(name); err != nil {
				return err
			}
		}

		return nil
	})
	g.running("vm-on", "vm-stays")
	g.reason(t, "vm-off", "Converged")

	after := h.identity("vm-on")
	require.Equal(t, before.uuid, after.uuid)
	require.NotEqual(t, before.pid, after.pid)
	require.Equal(t, inode, inodeOf(t, disk), "the disk is the same file")
	require.NotEqual(t, "running", h.virsh("domstate", "vm-off"))
	eventually(t, "what libvirt started is off again", func() error {
		if state, why := h.virsh("domstate", "vm-auto"), g.cli("why", "VM", "vm-auto"); state != "shut off" || !strings.Contains(why, "force off") {
			return fmt.Errorf("%s: %s", state, why)
		}

		return nil
	})
	require.Regexp(t, `Autostart: +enable`, h.virsh("dominfo", "vm-auto"), "the mark is left as it is")
	require.Equal(t, "lan", h.virsh("net-list", "--name"), "the network is active")
	require.Len(t, h.entries("lan"), 3)

	out, err := h.inNet("ip", "-o", "-4", "address")
	require.NoError(t, err)
	require.Contains(t, out, "10.89.0.1/24")

	g.write("vms.yaml", document("Network", "lan-2", "{mode: isolated, subnet: 10.90.0.0/24}"))
	g.none("VM")
	emptied(t, h)
	require.Empty(t, volumes(t, h))
	g.stop()
}
