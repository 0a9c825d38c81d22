package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/client"
	"gateway/resources"
	"gateway/test/libvirtd"
)

// looksPerVM is how often each of ten VMs is looked at: a thousand times together.
const looksPerVM = 100

// TestCaseV62AThousandLooks looks at converged VMs on QEMU a thousand times. Nothing is called that could change anything:
// the driver counts its calls, and neither definitions nor processes are other ones afterwards.
func TestCaseV62AThousandLooks(t *testing.T) {
	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 1h")
	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.84.0.0/24}")))
	g.start()

	var (
		names []string
		vms   []string
	)

	for i := range 10 {
		name := fmt.Sprintf("v62-%d", i)
		names = append(names, name)
		vms = append(vms, document("VM", name, fmt.Sprintf(
			"{memory: 64MiB, maxMemory: %dMiB, maxCpus: 2, power: paused, description: \"<a & b>\", graphics: vnc, guestAgent: true, "+
				"interfaces: [{network: lan}], disks: [{name: root, size: 16MiB}]}", 64+64*(i%2))))
	}

	g.write("vms.yaml", documents(vms...))
	eventually(t, "all are paused and converged", func() error {
		objects, err := g.list("VM")
		if err != nil {
			return err
		}

		for _, name := range names {
			o := objects[name]
			if c := o.Status.condition("Converged"); o.Status.State != "paused" || !isTrue(c) {
				return fmt.Errorf("%s: %+v", name, o.Status)
			}
		}

		return nil
	})

	before := map[string]identity{}
	for _, name := range names {
		before[name] = h.identity(name)
	}

	modified, definitions, files, seen := g.modified(), h.definitions(), definitionFiles(t, h), h.watch(t)
	looked := g.reads()

	c, err := client.New("unix://" + filepath.Join(g.path("data"), api.SocketName))
	require.NoError(t, err)
	t.Cleanup(c.Close)

	for i := range looksPerVM {
		for _, name := range names {
			require.NoError(t, c.Sync(t.Context(), resources.Target{Kind: "VM", Name: name}))
		}

		// Requests for one VM that come together are one look: each has to be over before the next is asked for.
		eventually(t, "all were looked at", func() error {
			if n := g.reads() - looked; n < float64((i+1)*len(names)) {
				return fmt.Errorf("%.0f looks after %d requests", n, (i+1)*len(names))
			}

			return nil
		})
	}

	require.GreaterOrEqual(t, g.reads()-looked, 1000.0)
	require.Equal(t, modified, g.modified(), "calls that change something")
	require.Equal(t, definitions, h.definitions())
	require.Equal(t, files, definitionFiles(t, h), "libvirt wrote no definition again")
	require.NotContains(t, seen.String(), "v62-", "libvirt's events")

	for _, name := range names {
		require.Equal(t, before[name], h.identity(name))
	}

	g.stop()
}

// reads counts the looks at domains.
func (g *gateway) reads() float64 {
	return g.metric("gateway_hypervisor_call_seconds_count", `call="Domain"`)
}

// definitionFiles returns when each definition was last written by libvirt.
func definitionFiles(t *testing.T, h *hypervisor) map[string]string {
	t.Helper()

	files, err := filepath.Glob(h.Path("/etc/libvirt/qemu") + "/*.xml")
	require.NoError(t, err)
	require.NotEmpty(t, files)

	written := map[string]string{}

	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)

		written[f] = info.ModTime().String()
	}

	return written
}

// TestCaseV80EverythingGoes deletes a UEFI VM with its variables, a saved state and a mark to start by itself, and one with
// snapshots: nothing of either is left.
func TestCaseV80EverythingGoes(t *testing.T) {
	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 1h")
	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.85.0.0/24}")))
	g.start()
	g.write("vms.yaml", documents(
		document("VM", "uefi", "{memory: 128MiB, firmware: uefi, shutdown: {grace: 1s}, disks: [{name: root, size: 16MiB, onDelete: remove}]}"),
		document("VM", "bios", "{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 64MiB, onDelete: remove}]}"),
	))
	g.running("uefi", "bios")

	nvram := h.Path("/var/lib/libvirt/qemu/nvram/uefi_VARS.fd")
	require.FileExists(t, nvram)

	// Held, so that it is not started again at once.
	g.cli("hold", "vm", "uefi")
	h.virsh("autostart", "uefi")
	h.virsh("managedsave", "uefi")
	h.virsh("snapshot-create-as", "bios", "before")
	h.virsh("snapshot-create-as", "bios", "after")
	require.FileExists(t, h.Path("/var/lib/libvirt/qemu/save/uefi.save"))
	require.NotEmpty(t, h.virsh("snapshot-list", "bios", "--name"))

	g.remove("vms.yaml")
	g.cli("release", "vm", "uefi")
	h.gone(t, []string{"uefi", "bios"}, []string{"lan"})
	eventually(t, "no VM is left", func() error {
		if objects, err := g.list("VM"); err != nil || len(objects) > 0 {
			return fmt.Errorf("%w: %v", err, objects)
		}

		return nil
	})

	for _, left := range []string{nvram, h.Path("/var/lib/libvirt/qemu/save/uefi.save"), h.Path("/etc/libvirt/qemu/autostart/uefi.xml")} {
		require.NoFileExists(t, left)
	}

	snapshots, err := filepath.Glob(h.Path("/var/lib/libvirt/qemu/snapshot") + "/*")
	require.NoError(t, err)
	require.Empty(t, snapshots)
	require.Empty(t, volumes(t, h))
	g.stop()
}

// TestIOErrorOnQEMU lets a guest fill its disk until the storage has no room: it is paused and told so, and goes on once
// there is room again.
func TestIOErrorOnQEMU(t *testing.T) {
	need(t, privateLibvirtd, bootingGuest)

	guest := libvirtd.NeedGuest(t)
	h := newHypervisor(t)
	g := newGateway(t, "id: small")
	g.images = append(g.images, filepath.Dir(guest.Kernel))

	const storage = "/var/lib/libvirt/images/gateway-small"

	h.inside(t, "mkdir", storage)
	h.inside(t, "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", storage)

	g.write("host.yaml", h.host())
	g.start()
	g.write("guest.yaml", document("VM", "guest", fmt.Sprintf(
		"{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, disks: [{name: root, size: 64MiB}], shutdown: {grace: 1s}}",
		guest.Kernel, guest.Initrd, guest.Cmdline+" guest.fill=vda")))

	eventually(t, "the guest is paused, and why is said", func() error {
		o, err := g.get("VM", "guest")
		if err != nil {
			return err
		}

		if c := o.Status.condition("Converged"); o.Status.State != "paused" || c.Reason != "IOError" || !strings.Contains(c.Message, "has no room") {
			return fmt.Errorf("%+v", o.Status)
		}

		return nil
	})

	resumes := g.metric("gateway_hypervisor_call_seconds_count", `call="Resume"`)
	require.Zero(t, resumes, "it is not tried in vain")

	h.inside(t, "mount", "-o", "remount,size=128m", storage)
	g.running("guest")
	require.Equal(t, 1.0, g.metric("gateway_hypervisor_call_seconds_count", `call="Resume"`))
	eventually(t, "the guest has filled its disk", func() error {
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s/guest.root.qcow2", h.PID(), storage)); err != nil || info.Size() < 60<<20 {
			return fmt.Errorf("%v: %w", info, err)
		}

		return nil
	})
	require.NoError(t, h.isRunning("guest"))
	g.stop()
}
