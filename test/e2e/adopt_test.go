package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// virtInstall is the program that most domains are made with.
var virtInstall = part{"virt-install", func() error {
	_, err := exec.LookPath("virt-install")

	return err
}}

// handMade is a domain as a person writes one, with much that no document can say: a floppy, an empty CD-ROM, a serial port to a
// file, a device of its own PCI address, hugepages not used, a title, metadata of others.
const handMade = `<domain type='qemu'>
  <name>my_vm</name>
  <title>by hand</title>
  <description>made &lt;by hand&gt;</description>
  <metadata><x:note xmlns:x="https://example.org/x">keep me</x:note></metadata>
  <memory unit='MiB'>96</memory>
  <currentMemory unit='MiB'>64</currentMemory>
  <vcpu current='1'>2</vcpu>
  <memtune><hard_limit unit='MiB'>512</hard_limit></memtune>
  <os><type arch='x86_64' machine='pc'>hvm</type><boot dev='hd'/></os>
  <features><acpi/></features>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/><source file='/var/lib/libvirt/images/hand.img'/><target dev='hda' bus='ide'/></disk>
    <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/var/lib/libvirt/images/data.raw'/><target dev='vda' bus='virtio'/><serial>S1</serial></disk>
    <disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><readonly/></disk>
    <disk type='file' device='floppy'><driver name='qemu' type='raw'/><source file='/var/lib/libvirt/images/floppy.img'/><target dev='fda'/></disk>
    <interface type='network'><mac address='52:54:00:AA:00:02'/><source network='Office_Net'/><model type='e1000'/></interface>
    <interface type='user'><mac address='52:54:00:aa:00:03'/></interface>
    <serial type='pty'/>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <watchdog model='i6300esb' action='reset'/>
  </devices>
</domain>`

const officeNet = `<network><name>Office_Net</name><bridge name='vbroffice'/><ip address='10.81.0.1' netmask='255.255.255.0'>
<dhcp><range start='10.81.0.10' end='10.81.0.200'/></dhcp></ip></network>`

// define gives a definition to virsh.
func (h *hypervisor) define(t *testing.T, command, text string) {
	t.Helper()

	path := filepath.Join(t.TempDir(), "definition.xml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	h.virsh(command, path)
}

// inside runs a program where the daemon is: with its files and its network.
func (h *hypervisor) inside(t *testing.T, args ...string) string {
	t.Helper()

	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(h.PID()), "-m", "-n"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)

	return string(out)
}

// mark is what the gateway writes into a domain that it adopts; noMetadata is what is around it where there was none before.
var (
	mark       = regexp.MustCompile(`\s*<(gateway:)?managed [^>]*gateway=[^>]*/>`)
	noMetadata = regexp.MustCompile(`\s*<metadata>\s*</metadata>`)
)

// withoutMark is a domain's definition without the mark.
func (h *hypervisor) withoutMark(name string) string {
	h.t.Helper()

	return noMetadata.ReplaceAllString(mark.ReplaceAllString(h.virsh("dumpxml", "--inactive", name), ""), "")
}

// TestCaseV24Import has domains that virt-install and a person made: `gateway import --all` prints what adopts them without a
// change.
func TestCaseV24Import(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, virtInstall)

	h := newHypervisor(t)
	h.define(t, "net-define", officeNet)
	h.virsh("net-start", "Office_Net")

	for _, args := range [][]string{{"-f", "qcow2", "win.qcow2"}, {"-f", "qcow2", "hand.img"}, {"-f", "raw", "data.raw"}, {"-f", "raw", "floppy.img"}} {
		out, err := exec.Command("qemu-img", "create", "-q", args[0], args[1], h.Path("/var/lib/libvirt/images/"+args[2]), "8M").CombinedOutput()
		require.NoError(t, err, string(out))
	}

	h.inside(t, "virt-install", "--connect", "qemu:///system", "--name", "Windows10", "--memory", "128", "--vcpus", "2", "--virt-type", "qemu",
		"--import", "--disk", "/var/lib/libvirt/images/win.qcow2", "--network", "network=Office_Net,mac=52:54:00:aa:00:01",
		"--graphics", "vnc", "--osinfo", "detect=off,require=off", "--noautoconsole")
	h.define(t, "define", handMade)

	before := map[string]string{"Windows10": h.withoutMark("Windows10"), "my_vm": h.withoutMark("my_vm")}
	running, network, events := h.identity("Windows10"), h.definitions(), h.watch(t)

	g := newGateway(t, "")
	g.write("host.yaml", h.host())
	g.start()
	g.cli("wait", "host", "qemu", "--for", "condition=Connected", "--timeout", "60s")

	yaml, remarks, code := g.run("import", "--all")
	require.Zero(t, code, remarks)

	for _, text := range []string{"Office_Net", "windows10", "my-vm", "mode: existing", "/var/lib/libvirt/images/hand.img", "format: qcow2", "52:54:00:aa:00:01", "power: stopped"} {
		require.Contains(t, yaml, text)
	}

	for _, text := range []string{"disk fda: it is a floppy", "disk hdc: there is no medium in it", "interface 52:54:00:aa:00:03", "graphics: VNC over TCP", "device watchdog", "memtune", "title"} {
		require.Contains(t, remarks, text)
	}

	require.NoError(t, os.WriteFile(g.path("import.yaml"), []byte(yaml), 0o600))
	require.Empty(t, g.cli("validate", "-f", "import.yaml"))

	json, _, _ := g.run("import", "--all", "-o", "json")
	require.NoError(t, os.WriteFile(g.path("import.json"), []byte(json), 0o600))
	g.cli("validate", "-f", "import.json")

	g.cli("apply", "-f", "import.yaml", "--wait", "--timeout", "60s")

	adopted := func() {
		t.Helper()

		for name, text := range before {
			require.Equal(t, text, h.withoutMark(name))
			require.Contains(t, h.virsh("dumpxml", "--inactive", name), "gateway:managed")
		}

		require.Equal(t, running, h.identity("Windows10"))
		require.Equal(t, network, h.definitions())
		require.NotContains(t, events.String(), "Windows10")
		require.NotContains(t, events.String(), "my_vm")
	}
	adopted()

	o, err := g.get("VM", "windows10")
	require.NoError(t, err)
	require.Equal(t, "running", o.Status.State)
	require.Equal(t, h.virsh("domuuid", "Windows10"), o.Status.DomainUUID)

	t.Run("and a look at it later changes nothing", func(t *testing.T) {
		defer g.under(t)()

		modified := g.modified()
		for range 20 {
			g.cli("sync", "VM", "-l", "{}")
		}

		g.cli("wait", "VM", "my-vm", "--for", "condition=Converged", "--timeout", "60s")
		require.Equal(t, modified, g.modified())
		adopted()
	})

	t.Run("and there is nothing left to adopt", func(t *testing.T) {
		defer g.under(t)()

		yaml, remarks, code := g.run("import", "--all")
		require.Zero(t, code)
		require.Empty(t, yaml)
		require.Contains(t, remarks, "there is no domain to adopt")
	})

	t.Run("and a change of one field leaves the others as they are", func(t *testing.T) {
		defer g.under(t)()

		g.cli("apply", "-f", g.edited("import.yaml", "maxCpus: 2", "maxCpus: 3"), "--wait", "--timeout", "60s")
		require.Equal(t, strings.Replace(before["my_vm"], ">2</vcpu>", ">3</vcpu>", 1), h.withoutMark("my_vm"))
	})

	t.Run("and a deleted VM leaves the disks and the network of others", func(t *testing.T) {
		defer g.under(t)()

		g.cli("delete", "VM", "my-vm", "--wait", "--timeout", "60s")
		require.Equal(t, []string{"Windows10"}, h.domains())
		require.FileExists(t, h.Path("/var/lib/libvirt/images/hand.img"))
		require.Equal(t, network, h.definitions())
	})
}

// edited writes a copy of a file with a text replaced, and returns its name.
func (g *gateway) edited(name, old, now string) string {
	g.t.Helper()

	text, err := os.ReadFile(g.path(name))
	require.NoError(g.t, err)
	require.Contains(g.t, string(text), old)

	edited := fmt.Sprintf("edited-%s", name)
	require.NoError(g.t, os.WriteFile(g.path(edited), []byte(strings.Replace(string(text), old, now, 1)), 0o600))

	return edited
}
