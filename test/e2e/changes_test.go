package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/client"
	"gateway/store"
	"gateway/test/libvirtd"
)

// living is a guest that runs, and what its document says of it.
type living struct {
	*gateway

	h     *hypervisor
	guest *libvirtd.Guest
}

// declare saves the document of the guest, its kernel and fields of its specification, and waits until it is taken in.
func (l *living) declare(fields string) {
	l.t.Helper()

	before, err := l.get("VM", "guest")
	if err != nil {
		before.Metadata.Revision = 0 // not declared yet
	}

	l.write("guest.yaml", document("VM", "guest", fmt.Sprintf("{boot: {kernel: %s, initrd: %s, cmdline: %q}, shutdown: {grace: 30s}, %s}",
		l.guest.Kernel, l.guest.Initrd, l.guest.Cmdline, fields)))
	eventually(l.t, "the document is taken in", func() error {
		o, err := l.get("VM", "guest")
		if err == nil && o.Metadata.Revision == before.Metadata.Revision {
			err = fmt.Errorf("revision %d", o.Metadata.Revision)
		}

		return err
	})
}

// TestChanges changes a guest that runs, by its document and behind the gateway's back, on a real hypervisor. The slow
// safety net is too slow to help: what is mended is mended by an event.
func TestChanges(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, bootingGuest)

	h := newHypervisor(t)
	l := &living{gateway: newGateway(t, "resync: 1h"), h: h, guest: libvirtd.NeedGuest(t)}
	l.images = append(l.images, filepath.Dir(l.guest.Kernel))
	l.write("host.yaml", documents(h.host(),
		document("Network", "one", "{mode: isolated, subnet: 10.81.0.0/24}"), document("Network", "two", "{mode: isolated, subnet: 10.82.0.0/24}")))
	l.start()
	l.declare(strings.Replace(resting, "32MiB", "16MiB", 1))
	l.running("guest")

	for _, part := range []struct {
		name string
		run  func(*testing.T, *living)
	}{
		{"disks, interfaces and memory change while it runs (V61)", liveOnQEMU},
		{"what can't is said, until a restart (V61)", restartOnQEMU},
		{"what others change is mended by its event, and audited (V60)", driftOnQEMU},
		{"one that is undefined is made again once, from its disk (V60)", recreatedOnQEMU},
		{"one that was saved goes on where it was", savedOnQEMU},
		{"one whose QEMU dies is started again, and counted", killedOnQEMU},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			defer l.under(t)()
			defer h.under(t)()

			part.run(t, l)
		}) {
			return
		}
	}

	l.stop()
}

// resting is the guest at the end of each part, and but for the size of its disk at the beginning.
const resting = "memory: 112MiB, maxMemory: 160MiB, maxCpus: 2, disks: [{name: root, size: 32MiB}], interfaces: [{network: one}]"

func liveOnQEMU(t *testing.T, l *living) {
	before := l.h.identity("guest")
	root := l.h.virsh("domblklist", "guest")

	l.declare("description: changed, memory: 144MiB, maxMemory: 160MiB, cpus: 2, maxCpus: 2, interfaces: [{network: two}, {network: one}], " +
		"disks: [{name: root, size: 32MiB}, {name: data, size: 16MiB}]")
	l.running("guest")

	require.Contains(t, l.h.virsh("domblklist", "guest"), "guest.data.qcow2")
	require.Contains(t, l.h.virsh("domblkinfo", "guest", "vda"), "33554432", "the disk has grown")
	require.Equal(t, 2, strings.Count(l.h.virsh("domiflist", "guest"), "52:54:00:"))
	require.Contains(t, l.h.virsh("domiflist", "guest"), " two ")
	require.Equal(t, "2", l.h.virsh("vcpucount", "guest", "--live", "--current"))
	require.Contains(t, l.h.virsh("dommemstat", "guest"), "actual 147456", "the guest has the memory")
	require.Equal(t, "changed", l.h.virsh("desc", "guest"))

	// One CPU less is what a guest is not asked for; everything else comes back.
	l.declare(strings.Replace(resting, "maxCpus: 2", "cpus: 2, maxCpus: 2", 1) + `, description: ""`)
	l.running("guest")
	require.Equal(t, root, l.h.virsh("domblklist", "guest"), "the guest has let go of the disk")
	require.Equal(t, 1, strings.Count(l.h.virsh("domiflist", "guest"), "52:54:00:"))
	require.Contains(t, l.h.virsh("dommemstat", "guest"), "actual 114688", "the guest has given the memory back")
	require.Equal(t, before, l.h.identity("guest"), "it was not restarted")
}

// waitsForRestart waits until fields of the guest wait for a restart.
func (l *living) waitsForRestart(fields string) {
	l.t.Helper()

	eventually(l.t, fields+" wait for a restart", func() error {
		o, err := l.get("VM", "guest")
		if err != nil {
			return err
		}

		if c := o.Status.condition("Converged"); c.Reason != "RestartRequired" || !strings.HasPrefix(c.Message, fields+" take effect after a restart") {
			return fmt.Errorf("%+v", c)
		}

		return nil
	})
}

func restartOnQEMU(t *testing.T, l *living) {
	before := l.h.identity("guest")

	l.declare(resting + ", cpus: 2, graphics: vnc, guestAgent: true")
	l.waitsForRestart("graphics, guestAgent")
	l.declare(resting + ", cpus: 2")
	l.running("guest")
	require.Equal(t, before, l.h.identity("guest"), "taken back")

	l.declare(resting + ", graphics: vnc, guestAgent: true")
	l.waitsForRestart("cpus, graphics, guestAgent")
	l.cli("restart", "guest")
	l.running("guest")
	require.NotEqual(t, before.pid, l.h.identity("guest").pid)

	live := l.h.virsh("dumpxml", "guest")
	require.Contains(t, live, "org.qemu.guest_agent.0", "the agent's channel")
	require.Contains(t, live, "<listen type='socket' socket='/", "VNC is on a unix socket")
	require.NotContains(t, live, "<listen type='address'")

	l.declare(resting)
	l.waitsForRestart("graphics, guestAgent")
	l.cli("restart", "guest")
	l.running("guest")
}

func driftOnQEMU(t *testing.T, l *living) {
	before := l.h.identity("guest")

	for name, test := range map[string]struct {
		do     func()
		mended func() error
	}{
		"the description": {
			func() { l.h.virsh("desc", "guest", "--live", "--config", "somebody's") },
			func() error { return l.virshSays(false, "somebody's", "dumpxml", "guest") },
		},
		"the memory in the definition": {
			func() { l.redefine("<memory unit='KiB'>163840</memory>", "<memory unit='KiB'>524288</memory>") },
			func() error {
				return l.virshSays(true, "<memory unit='KiB'>163840</memory>", "dumpxml", "guest", "--inactive")
			},
		},
		"the memory of what runs": {
			func() { l.h.virsh("setmem", "guest", "--live", "130M") },
			func() error { return l.virshSays(true, "actual 114688", "dommemstat", "guest") },
		},
		"a disk of what runs": {
			func() { l.h.virsh("detach-disk", "guest", "vda", "--live") },
			func() error { return l.virshSays(true, "guest.root.qcow2", "domblklist", "guest") },
		},
		"its power": {
			func() { l.h.virsh("suspend", "guest") },
			func() error { return l.h.isRunning("guest") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			drifts := l.drifts()
			test.do()
			eventually(t, name+" is as declared again", func() error {
				if n := l.drifts(); n <= drifts {
					return fmt.Errorf("%d lines in the audit, %d before", n, drifts)
				}

				return test.mended()
			})
			l.running("guest")
		})
	}

	require.Equal(t, before, l.h.identity("guest"), "it was not restarted")
}

// virshSays returns nil where the output of virsh contains a text, or does not.
func (l *living) virshSays(want bool, text string, args ...string) error {
	out, err := l.h.Virsh(args...)
	if err == nil && strings.Contains(out, text) != want {
		err = fmt.Errorf("virsh %v says %s", args, out)
	}

	return err
}

// redefine replaces a text in the definition of the guest, as virsh edit does.
func (l *living) redefine(from, to string) {
	l.t.Helper()

	text := l.h.virsh("dumpxml", "guest", "--inactive")
	require.Contains(l.t, text, from)

	file := filepath.Join(l.t.TempDir(), "guest.xml")
	require.NoError(l.t, os.WriteFile(file, []byte(strings.Replace(text, from, to, 1)), 0o600))
	l.h.virsh("define", file)
}

// drifts counts the lines of the audit that say that something was mended.
func (l *living) drifts() (n int) {
	l.t.Helper()

	c, err := client.New("unix://" + filepath.Join(l.path("data"), api.SocketName))
	require.NoError(l.t, err)

	defer c.Close()

	entries, err := c.Journal(l.t.Context(), store.Query{Classes: []store.Class{store.ClassHypervisor}, Object: "VM/guest"}, 0)
	require.NoError(l.t, err)

	for _, e := range entries {
		if e.Reason == "Drift" {
			n++
		}
	}

	return n
}

func recreatedOnQEMU(t *testing.T, l *living) {
	before := l.h.identity("guest")
	disk := l.h.Path("/var/lib/libvirt/images/gateway-" + l.id() + "/guest.root.qcow2")
	inode := inodeOf(t, disk)

	// One that is undefined while it runs is defined again at once, and goes on.
	l.h.virsh("undefine", "guest")
	eventually(t, "it has a definition again", func() error { return l.virshSays(true, "guest", "list", "--persistent", "--name") })
	require.Equal(t, before, l.h.identity("guest"))
	l.running("guest")

	// Held, so that it is not started in between.
	l.cli("hold", "vm", "guest")
	l.h.virsh("destroy", "guest")
	l.h.virsh("undefine", "guest")

	defined := l.metric("gateway_hypervisor_call_seconds_count", `call="DefineDomain"`)

	l.cli("release", "vm", "guest")
	eventually(t, "it runs again", func() error { return l.h.isRunning("guest") })
	l.running("guest")

	after := l.h.identity("guest")
	require.Equal(t, before.uuid, after.uuid)
	require.Equal(t, inode, inodeOf(t, disk), "the disk is the same file")
	require.LessOrEqual(t, l.metric("gateway_hypervisor_call_seconds_count", `call="DefineDomain"`)-defined, 2.0)
	require.Contains(t, l.cli("events", "--source", "domain"), "undefined")
}

// id is the gateway's.
func (l *living) id() string {
	text, err := os.ReadFile(filepath.Join(l.path("data"), "id"))
	require.NoError(l.t, err)

	return strings.TrimSpace(string(text))
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()

	info, err := os.Stat(path)
	require.NoError(t, err)

	return info.Sys().(*syscall.Stat_t).Ino
}

func savedOnQEMU(t *testing.T, l *living) {
	seen := l.h.watch(t)
	l.cli("stop", "guest")
	eventually(t, "it is off", func() error { return l.virshSays(true, "shut off", "domstate", "guest") })
	l.cli("declared", "guest")
	l.running("guest")

	l.h.virsh("managedsave", "guest")
	eventually(t, "it was restored from its saved state", func() error {
		if !strings.Contains(seen.String(), "Started Restored") {
			return fmt.Errorf("%s", seen)
		}

		return l.h.isRunning("guest")
	})
	l.running("guest")
	require.NoFileExists(t, l.h.Path("/var/lib/libvirt/qemu/save/guest.save"))
}

func killedOnQEMU(t *testing.T, l *living) {
	before := l.h.identity("guest")

	var pid int

	_, err := fmt.Sscan(before.pid, &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))

	within(t, patience, "another QEMU runs", func() error {
		if err := l.h.isRunning("guest"); err != nil {
			return err
		}

		if now := l.h.identity("guest"); now.pid == before.pid {
			return fmt.Errorf("%+v", now)
		}

		return nil
	})
	eventually(t, "the crash is counted", func() error { return l.crashed(1) })
}

func (l *living) crashed(want int) error {
	out := l.cli("get", "vm", "guest", "-o", "json")
	if !strings.Contains(out, fmt.Sprintf(`"crashes": %d`, want)) {
		return fmt.Errorf("%s", out)
	}

	return nil
}
