package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// withGuest starts a gateway on a hypervisor of the test's own. Its documents may name the files of the guest that boots.
func withGuest(t *testing.T) (*libvirtd.Guest, *hypervisor, *gateway) {
	t.Helper()

	guest := libvirtd.NeedGuest(t)
	h := newHypervisor(t)
	g := newGateway(t, "")
	g.images = append(g.images, filepath.Dir(guest.Kernel))
	g.write("host.yaml", h.host())
	g.start()

	return guest, h, g
}

// TestGuest has a guest that boots from its own kernel, with a disk, on a network with addresses: the gateway shows the address
// that the guest has, asks it to power off, and leaves nothing behind.
func TestGuest(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, bootingGuest)

	guest, h, g := withGuest(t)

	g.write("guest.yaml", documents(
		document("Network", "lan", "{mode: isolated, subnet: 10.78.0.0/24}"),
		document("VM", "guest", fmt.Sprintf("{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, interfaces: [{network: lan}], "+
			"disks: [{name: root, size: 64MiB, onDelete: remove}, {name: data, size: 64MiB}], shutdown: {grace: 50s}}", guest.Kernel, guest.Initrd, guest.Cmdline)),
	))
	g.running("guest")

	leased := g.leased(t, "guest", "10.78.0.")
	require.Contains(t, h.virsh("domifaddr", "guest"), leased)

	require.Len(t, volumes(t, h), 2)
	g.remove("guest.yaml")

	// It powers off when it is asked to: long before it would be forced.
	within(t, 30*time.Second, "the VM is gone", func() error {
		objects, err := g.list("VM")
		if err == nil && len(objects) > 0 {
			err = fmt.Errorf("%+v", objects)
		}

		return err
	})
	require.Empty(t, h.domains())
	eventually(t, "the network is gone", func() error {
		if n := h.networks(); len(n) > 0 {
			return fmt.Errorf("%s", n)
		}

		return nil
	})

	left := volumes(t, h)
	require.Len(t, left, 1, "a disk is kept where its document does not say otherwise")
	require.Contains(t, left[0], "data")
	g.stop()
}

// leased waits until a VM has an address by DHCP, with a prefix, and returns it.
func (g *gateway) leased(t *testing.T, name, prefix string) (address string) {
	t.Helper()

	eventually(t, "the guest has an address by DHCP, in its network", func() error {
		o, err := g.get("VM", name)
		if err != nil {
			return err
		}

		for _, a := range o.Status.Addresses {
			if a.Source == "lease" && strings.HasPrefix(a.Address, prefix) {
				address = a.Address

				return nil
			}
		}

		return fmt.Errorf("%+v", o.Status.Addresses)
	})

	return address
}

// volumes returns the files that are disks on the hypervisor.
func volumes(t *testing.T, h *hypervisor) (names []string) {
	t.Helper()

	require.NoError(t, filepath.WalkDir(h.Path("/var/lib/libvirt/images"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
		}

		return err
	}))

	return names
}
