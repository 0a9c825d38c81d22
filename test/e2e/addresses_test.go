package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// said waits until who says so has told an address of a VM, and returns it.
func (g *gateway) said(t *testing.T, name, source string) (address string) {
	t.Helper()

	eventually(t, name+" has an address by "+source, func() error {
		o, err := g.get("VM", name)
		if err != nil {
			return err
		}

		for _, a := range o.Status.Addresses {
			if a.Source == source {
				address = a.Address

				return nil
			}
		}

		return fmt.Errorf("%+v", o.Status.Addresses)
	})

	return address
}

// TestAddressesHaveTheirSources has guests of which the hypervisor knows in different ways where they are: by the lease of a
// network of ours, by what the agent in it says, and, on a bridge that was there before, only by having heard of it.
func TestAddressesHaveTheirSources(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, bootingGuest)

	guest := libvirtd.NeedGuest(t)
	h := newHypervisor(t)
	h.define(t, "net-define", officeNet)
	h.virsh("net-start", "Office_Net")

	office := h.definitions()

	g := newGateway(t, "resync: 1h")
	g.images = append(g.images, filepath.Dir(guest.Kernel))
	g.write("host.yaml", h.host())
	g.start()

	vm := func(name, more string) string {
		return document("VM", name, fmt.Sprintf("{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, shutdown: {grace: 1s}, %s}",
			guest.Kernel, guest.Initrd, guest.Cmdline, more))
	}

	g.write("vms.yaml", documents(
		document("Network", "lan", "{mode: isolated, subnet: 10.87.0.0/24}"),
		document("Network", "office", "{mode: bridge, bridge: vbroffice}"),
		vm("talks", "guestAgent: true, interfaces: [{network: lan}]"),
		vm("silent", "interfaces: [{network: office}]"),
	))
	g.running("talks", "silent")

	require.Contains(t, h.virsh("domiflist", "silent"), "vbroffice")
	require.Equal(t, g.said(t, "talks", "declared"), g.said(t, "talks", "lease"))
	require.Equal(t, g.said(t, "talks", "declared"), g.said(t, "talks", "agent"))

	var there string

	eventually(t, "the guest on the bridge has an address", func() error {
		leases := h.virsh("net-dhcp-leases", "Office_Net")
		if there = regexp.MustCompile(`10\.81\.0\.\d+`).FindString(leases); there == "" {
			return fmt.Errorf("%q", leases)
		}

		return h.pings(there)
	})

	// libvirt 9 can't read the neighbours of kernels that end their list within its last message.
	if _, err := h.Virsh("domifaddr", "silent", "--source", "arp"); err == nil {
		require.Equal(t, there, g.said(t, "silent", "arp"))
	} else {
		t.Logf("libvirt can't say what it has heard of: %s", err)
	}

	g.write("vms.yaml", document("Network", "lan", "{mode: isolated, subnet: 10.87.0.0/24}"))
	g.none("VM")
	require.Empty(t, h.domains())
	require.Equal(t, office, h.definitions(), "the bridge is somebody else's")
	g.stop()
}
