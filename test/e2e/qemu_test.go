package e2e

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQEMU follows VMs through their life on a real hypervisor. The parts share one daemon and one gateway, whose slow
// safety net is too slow to help.
func TestQEMU(t *testing.T) {
	need(t, privateLibvirtd, natsCLI)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 5m")
	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.71.0.0/24}")))
	g.start()
	g.write("web-1.yaml", document("VM", "web-1", vmOn("lan")))
	g.running("web-1")

	for _, part := range []struct {
		name string
		run  func(*testing.T, *gateway, *hypervisor)
	}{
		{"a document is a running domain on its network", isDomain},
		{"a document that moves to another file changes nothing", documentMoves},
		{"every way to save a file is one update (S20, S29)", editorsSave},
		{"what is destroyed behind the gateway's back is mended within 2 s", destroyedBehind},
		{"webhooks, ticks and messages lead to a reconcile", eventsReconcile},
		{"a converged VM is not touched however often it is looked at (V62)", convergedIsLeftAlone},
		{"hostile text stays text (V8)", hostileText},
		{"a domain of somebody else is left alone (V24)", foreignDomain},
		{"a start that fails is tried again with the same domain (V23)", startFails},
		{"a network stays until its last VM is gone (V43)", sharedNetwork},
		{"a file that is deleted takes VM and network with it", fileDeleted},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			defer g.under(t)()
			defer h.under(t)()

			part.run(t, g, h)
		}) {
			return
		}
	}

	g.stop()
}

func isDomain(t *testing.T, g *gateway, h *hypervisor) {
	require.NoError(t, h.isRunning("web-1"))

	o, err := g.get("VM", "web-1")
	require.NoError(t, err)
	require.Equal(t, h.identity("web-1").uuid, o.Status.DomainUUID)
	require.Equal(t, "qemu", o.Status.Host)
	require.NotEmpty(t, h.networks())
	require.Contains(t, h.virsh("domiflist", "web-1"), "52:54:00:")
}

func documentMoves(t *testing.T, g *gateway, h *hypervisor) {
	before, modified := h.identity("web-1"), g.modified()
	vm := document("VM", "web-1", vmOn("lan"))
	seen := h.watch(t)

	uid := func(file string) string {
		var o object

		eventually(t, "web-1 is declared by "+file, func() (err error) {
			if o, err = g.get("VM", "web-1"); err != nil {
				return err
			}

			if out := g.cli("get", "VM", "web-1", "-o", "json"); !strings.Contains(out, filepath.Join(g.documents(), file)) {
				return fmt.Errorf("%s", out)
			}

			return nil
		})

		return o.Metadata.UID
	}

	first := uid("web-1.yaml")

	// Renamed; then cut out of one file and pasted into another, which is saved first, and then into a third, saved last.
	require.NoError(t, os.Rename(filepath.Join(g.documents(), "web-1.yaml"), filepath.Join(g.documents(), "renamed.yaml")))
	require.Equal(t, first, uid("renamed.yaml"))

	g.write("pasted.yaml", documents(document("Network", "spare", "{mode: isolated, subnet: 10.72.0.0/24}"), vm))
	g.remove("renamed.yaml")
	require.Equal(t, first, uid("pasted.yaml"))

	g.write("web-1.yaml", vm)
	g.write("pasted.yaml", document("Network", "spare", "{mode: isolated, subnet: 10.72.0.0/24}"))
	require.Equal(t, first, uid("web-1.yaml"))
	g.running("web-1")

	require.Equal(t, before, h.identity("web-1"))
	require.Equal(t, modified, g.modified(), "calls that change something")
	require.NotContains(t, seen.String(), "web-1", "libvirt's events")
}

func destroyedBehind(t *testing.T, g *gateway, h *hypervisor) {
	before := h.identity("web-1")
	h.virsh("destroy", "web-1")
	within(t, stretched(2*time.Second), "the domain runs again", func() error { return h.isRunning("web-1") })

	after := h.identity("web-1")
	require.Equal(t, before.uuid, after.uuid)
	require.NotEqual(t, before.pid, after.pid)
	g.running("web-1")
	require.NotEmpty(t, g.events("domain"), "the event that showed it")
}

func convergedIsLeftAlone(t *testing.T, g *gateway, h *hypervisor) {
	g.running("web-1")

	before, modified, networks, seen := h.identity("web-1"), g.modified(), h.definitions(), h.watch(t)
	reads := g.metric("gateway_hypervisor_call_seconds_count", `call="Domain"`)

	for range 50 {
		g.cli("sync", "VM", "-l", "{}")
	}

	eventually(t, "the domain was looked at", func() error {
		if now := g.metric("gateway_hypervisor_call_seconds_count", `call="Domain"`); now < reads+10 {
			return fmt.Errorf("%.0f reads, %.0f before", now, reads)
		}

		return nil
	})

	g.running("web-1")
	require.Equal(t, modified, g.modified(), "calls that change something")
	require.Equal(t, networks, h.definitions())
	require.Equal(t, before, h.identity("web-1"))
	require.NotContains(t, seen.String(), "web-1", "libvirt's events")
}

func hostileText(t *testing.T, g *gateway, h *hypervisor) {
	const description = `</description></domain><x a="1"/> & <![CDATA[y]]> "quotes" 'and' ünicode`

	g.write("hostile.yaml", fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata:\n  name: hostile\n  labels: {tier: 'a\"b<c/>'}\n"+
		"spec:\n  memory: 64MiB\n  shutdown: {grace: 1s}\n  description: %s\n", "'"+strings.ReplaceAll(description, "'", "''")+"'"))
	g.running("hostile")

	type element struct {
		XMLName  xml.Name
		Text     string    `xml:",chardata"`
		Children []element `xml:",any"`
	}

	var domain element
	require.NoError(t, xml.Unmarshal([]byte(h.virsh("dumpxml", "--inactive", "hostile")), &domain))

	found := false

	for _, child := range domain.Children {
		require.NotEqual(t, "x", child.XMLName.Local, "an element was injected")

		if child.XMLName.Local == "description" {
			found = true
			require.Equal(t, description, child.Text)
		}
	}

	require.True(t, found, "the domain has no description")

	modified := g.modified()
	g.cli("sync", "VM", "hostile")
	g.running("hostile")
	require.Equal(t, modified, g.modified(), "the text read back is the text that was declared")

	g.remove("hostile.yaml")
	h.gone(t, []string{"hostile"}, nil)
}

const foreignXML = `<domain type='qemu'><name>taken</name><memory>65536</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>`

func foreignDomain(t *testing.T, g *gateway, h *hypervisor) {
	path := filepath.Join(t.TempDir(), "taken.xml")
	require.NoError(t, os.WriteFile(path, []byte(foreignXML), 0o600))
	h.virsh("define", path)
	h.virsh("start", "taken")

	before, text := h.identity("taken"), h.virsh("dumpxml", "--inactive", "taken")

	g.write("taken.yaml", document("VM", "taken", vmSpec))
	eventually(t, "the name is taken", func() error {
		o, err := g.get("VM", "taken")
		if err != nil {
			return err
		}

		for _, c := range o.Status.Conditions {
			if c.Reason == "NameTaken" {
				return nil
			}
		}

		return fmt.Errorf("%+v", o.Status)
	})

	g.remove("taken.yaml")
	eventually(t, "VM taken is gone", func() error {
		if _, err := g.get("VM", "taken"); err == nil {
			return fmt.Errorf("it is there")
		}

		return nil
	})

	require.Equal(t, before, h.identity("taken"))
	require.Equal(t, text, h.virsh("dumpxml", "--inactive", "taken"))
	h.virsh("destroy", "taken")
	h.virsh("undefine", "taken")
}

func sharedNetwork(t *testing.T, g *gateway, h *hypervisor) {
	networks := h.networks()

	g.write("web-2.yaml", document("VM", "web-2", vmOn("lan")))
	g.running("web-2")
	require.Equal(t, networks, h.networks(), "both are on one network")

	before := h.identity("web-2")
	g.remove("web-1.yaml")
	h.gone(t, []string{"web-1"}, nil)
	eventually(t, "VM web-1 is gone", func() error {
		if _, err := g.get("VM", "web-1"); err == nil {
			return fmt.Errorf("it is there")
		}

		return nil
	})
	require.Equal(t, networks, h.networks(), "the second VM is still on it")
	require.Equal(t, before, h.identity("web-2"))

	g.remove("web-2.yaml")
	h.gone(t, []string{"web-2"}, networks)
}

func fileDeleted(t *testing.T, g *gateway, h *hypervisor) {
	before := h.networks()

	g.write("lab.yaml", documents(document("Network", "lab", "{mode: isolated, subnet: 10.73.0.0/24}"), document("VM", "alone", vmOn("lab"))))
	g.running("alone")
	require.Len(t, h.networks(), len(before)+1)
	require.NotEmpty(t, h.domains())

	g.remove("lab.yaml")
	g.none("VM")
	require.Empty(t, h.domains())
	eventually(t, "the network is gone", func() error {
		if now := h.networks(); len(now) != len(before) {
			return fmt.Errorf("%s", now)
		}

		return nil
	})
	require.Empty(t, h.networks())
}

// startFails has a VM that can be defined and not started: the same domain is used once it can (V23).
func startFails(t *testing.T, g *gateway, h *hypervisor) {
	// More than an emulated machine can address.
	g.write("huge.yaml", document("VM", "huge", "{memory: 32TiB, shutdown: {grace: 1s}}"))

	var failed object

	eventually(t, "the start fails, and the VM says so", func() (err error) {
		if failed, err = g.get("VM", "huge"); err == nil && failed.Status.LastError == "" {
			err = fmt.Errorf("%+v", failed.Status)
		}

		return err
	})

	uuid := h.virsh("domuuid", "huge")
	require.NotEqual(t, "running", h.virsh("domstate", "huge"))

	g.write("huge.yaml", document("VM", "huge", vmSpec))
	g.running("huge")
	require.Equal(t, uuid, h.virsh("domuuid", "huge"))

	g.remove("huge.yaml")
	h.gone(t, []string{"huge"}, nil)
}
