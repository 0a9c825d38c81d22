package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// networkLab has a gateway on a hypervisor of its own, with a network of a few addresses.
func networkLab(t *testing.T, spec string) (*gateway, *hypervisor) {
	t.Helper()
	t.Parallel() // they mostly wait

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	// Where its networks are, as a gateway on the hypervisor itself is: a lease can be released there only.
	g.before = []string{"nsenter", "-t", strconv.Itoa(h.PID()), "-n"}
	g.write("host.yaml", h.host())
	g.write("lan.yaml", document("Network", "lan", spec))
	g.start()

	return g, h
}

// waits waits until a VM's network is not ready for a reason, and returns what is said.
func (g *gateway) waits(t *testing.T, name, reason string) (message string) {
	t.Helper()

	eventually(t, "VM "+name+" waits: "+reason, func() error {
		o, err := g.get("VM", name)
		if err != nil {
			return err
		}

		c := o.Status.condition("NetworkReady")
		message = c.Message

		if c.Reason != reason {
			return fmt.Errorf("%+v", o.Status)
		}

		return nil
	})

	return message
}

func TestCaseV40MACOfAnotherVMOnQEMU(t *testing.T) {
	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24}")

	const spec = "{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan, mac: 52:54:00:00:40:01}]}"

	g.write("first.yaml", document("VM", "first", spec))
	g.running("first")
	g.write("second.yaml", document("VM", "second", spec))
	require.Equal(t, "MAC 52:54:00:00:40:01 is that of VM first", g.waits(t, "second", "MACInUse"))
	require.Equal(t, []string{"first"}, h.domains())

	g.remove("first.yaml")
	g.running("second")
}

func TestCaseV41ExhaustedPoolOnQEMU(t *testing.T) {
	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24, range: [10.84.0.10, 10.84.0.10]}")

	g.write("first.yaml", document("VM", "first", vmOn("lan")))
	g.running("first")
	g.write("second.yaml", document("VM", "second", vmOn("lan")))
	require.Contains(t, g.waits(t, "second", "AddressPoolExhausted"), "no free address between 10.84.0.10 and 10.84.0.10")

	g.remove("first.yaml")
	g.running("second")
	require.Len(t, h.entries("lan"), 1)
	require.Contains(t, h.entries("lan")[0], "name='second' ip='10.84.0.10'")
}

func TestCaseV43NetworkStaysUntilItsLastUserOnQEMU(t *testing.T) {
	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24}")

	g.write("first.yaml", document("VM", "first", vmOn("lan")))
	g.write("second.yaml", document("VM", "second", vmOn("lan")))
	g.running("first", "second")

	server := h.dnsmasq("lan")
	g.remove("first.yaml")
	h.gone(t, []string{"first"}, nil)
	eventually(t, "the entry of the first is gone", func() error {
		if n := len(h.entries("lan")); n != 1 {
			return fmt.Errorf("%d entries", n)
		}

		return nil
	})
	require.Equal(t, server, h.dnsmasq("lan"))

	g.remove("second.yaml")
	h.gone(t, []string{"second"}, []string{"lan"})
}

func TestCaseV44NothingIsLeftOfAFailedStartOnQEMU(t *testing.T) {
	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24}")

	// More than an emulated machine can address.
	g.write("huge.yaml", document("VM", "huge", "{memory: 32TiB, shutdown: {grace: 1s}, interfaces: [{network: lan}]}"))
	eventually(t, "the start fails after the network was made", func() error {
		o, err := g.get("VM", "huge")
		if err == nil && (o.Status.LastError == "" || len(h.networks()) == 0) {
			err = fmt.Errorf("%+v, networks %s", o.Status, h.networks())
		}

		return err
	})

	g.remove("huge.yaml")
	h.gone(t, []string{"huge"}, []string{"lan"})
	g.none("VM")
}

func TestCaseV45EntriesDoNotRestartTheNetworkOnQEMU(t *testing.T) {
	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24, domain: lab.example}")

	g.write("stays.yaml", document("VM", "stays", vmOn("lan")))
	g.running("stays")

	server, interfaces := h.dnsmasq("lan"), h.virsh("domiflist", "stays")
	entry := func(address string) {
		t.Helper()

		g.write("comes.yaml", document("VM", "comes", fmt.Sprintf("{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan, address: %s}]}", address)))
		eventually(t, "the entry is there", func() error {
			if !strings.Contains(strings.Join(h.entries("lan"), "\n"), "name='comes' ip='"+address+"'") {
				return fmt.Errorf("%s", h.entries("lan"))
			}

			return nil
		})
	}

	entry("10.84.0.50")
	g.running("comes")
	h.resolves(t, "comes.lab.example", "10.84.0.50")
	entry("10.84.0.60")
	h.resolves(t, "comes.lab.example", "10.84.0.60")
	g.remove("comes.yaml")
	h.gone(t, []string{"comes"}, nil)

	require.Equal(t, server, h.dnsmasq("lan"), "the same process serves the network")
	require.Equal(t, interfaces, h.virsh("domiflist", "stays"))
}

// dnsmasq returns the process that serves a network: another one after a restart of the network.
func (h *hypervisor) dnsmasq(network string) string {
	h.t.Helper()

	pid, err := os.ReadFile(h.Path("/run/libvirt/network/" + network + ".pid"))
	require.NoError(h.t, err)

	return strings.TrimSpace(string(pid))
}

// resolves waits until a name has an address where the guests ask for it.
func (h *hypervisor) resolves(t *testing.T, name, address string) {
	t.Helper()

	eventually(t, name+" is "+address, func() error {
		if out := h.inside(t, "sh", "-c", "busybox nslookup "+name+" 10.84.0.1 2>&1 || true"); !strings.Contains(out, address) {
			return fmt.Errorf("%s", out)
		}

		return nil
	})
}

// TestCaseV42LeaseIsGoneFirst has one address and two guests, of which the second takes it from the first.
func TestCaseV42LeaseIsGoneFirst(t *testing.T) {
	need(t, bootingGuest)

	g, h := networkLab(t, "{mode: isolated, subnet: 10.84.0.0/24, range: [10.84.0.10, 10.84.0.10]}")
	guest := libvirtd.NeedGuest(t)
	g.images = append(g.images, filepath.Dir(guest.Kernel))
	g.stop()
	g.start()

	spec := fmt.Sprintf("{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, interfaces: [{network: lan}], shutdown: {grace: 50s}}",
		guest.Kernel, guest.Initrd, guest.Cmdline)

	g.write("first.yaml", document("VM", "first", spec))
	require.Equal(t, "10.84.0.10", g.leased(t, "first", "10.84.0."))
	require.Equal(t, 1, strings.Count(h.virsh("net-dhcp-leases", "lan"), "10.84.0.10/"))

	// Somebody else keeps the network, so that the lease does not go with it. It never runs, and so asks for nothing.
	g.write("keeper.yaml", document("VM", "keeper", "{power: paused, memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan, address: 10.84.0.20}]}"))
	g.cli("wait", "VM", "keeper", "--for", "condition=Converged", "--timeout", "60s")
	g.write("second.yaml", document("VM", "second", spec))
	g.waits(t, "second", "AddressPoolExhausted")

	// A lease ends by itself after two minutes, and is renewed after one.
	before := time.Now()
	g.remove("first.yaml")
	h.gone(t, []string{"first"}, nil)
	eventually(t, "the lease of the first is gone", func() error {
		if leases := h.virsh("net-dhcp-leases", "lan"); strings.Contains(leases, "first") {
			return fmt.Errorf("%s", leases)
		}

		return nil
	})
	require.Less(t, time.Since(before), 50*time.Second)
	require.Equal(t, "10.84.0.10", g.leased(t, "second", "10.84.0."))

	leases := h.virsh("net-dhcp-leases", "lan")
	require.Equal(t, 1, strings.Count(leases, "10.84.0.10/"), leases)
	require.Contains(t, h.entries("lan")[0]+h.entries("lan")[1], "name='second' ip='10.84.0.10'")
}
