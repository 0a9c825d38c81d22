//go:build libvirt_dlopen

package libvirt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
	"gateway/test/libvirtd"
)

func TestCaseV62WhatLibvirtFillsInIsNoDrift(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())

	network := hypervisor.NetworkSpec{
		Name: "v62", UUID: hypervisor.NetworkUUID(gatewayID, "v62"), Mode: resources.NetworkIsolated, Subnet: "10.62.0.0/24",
		First: "10.62.0.2", Last: "10.62.0.254", Bridge: "gwv62",
	}
	_, err := d.EnsureNetwork(t.Context(), network)
	require.NoError(t, err)

	path, _, err := d.EnsureVolume(t.Context(), hypervisor.VolumeSpec{Name: "v62.root.qcow2", Size: 16 * resources.MiB})
	require.NoError(t, err)

	spec := small("v62")
	spec.CPUs, spec.MaxCPUs = 1, 2
	spec.Memory, spec.MaxMemory = 128*resources.MiB+1, 256*resources.MiB
	spec.Firmware = "uefi"
	spec.Graphics, spec.GuestAgent = "vnc", true
	spec.Disks = []hypervisor.DomainDisk{{Name: "root", Path: path, Format: "qcow2"}}
	spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:62:00:01", Network: "v62"}}
	defined(t, d, spec)

	unchanged := func() {
		t.Helper()

		for range 3 {
			result, err := d.DefineDomain(t.Context(), spec)
			require.NoError(t, err)
			require.Equal(t, hypervisor.DefineResult{}, result)
		}
	}

	unchanged()
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, true))
	unchanged()

	seen, err := d.Domain(t.Context(), spec.UUID)
	require.NoError(t, err)
	require.Empty(t, seen.RestartRequired)

	want := spec.Normalised()
	require.Empty(t, seen.Spec.Differences(&want))

	testLiveChanges(t, daemon, d, spec)
}

// testLiveChanges changes a domain that is on.
func testLiveChanges(t *testing.T, daemon *libvirtd.Daemon, d *driver, spec hypervisor.DomainSpec) {
	t.Helper()

	t.Run("and what a running domain can't take is said, until it is taken back (V61)", func(t *testing.T) {
		changed := spec
		changed.Firmware, changed.Graphics, changed.GuestAgent, changed.Disks, changed.Interfaces = "bios", "none", false, nil, nil
		fields := []string{
			hypervisor.FieldFirmware, hypervisor.FieldDisks, hypervisor.FieldInterfaces, hypervisor.FieldGraphics, hypervisor.FieldGuestAgent,
		}

		result, err := d.DefineDomain(t.Context(), changed)
		require.NoError(t, err)
		require.Equal(t, fields, result.Changed)
		require.Equal(t, fields, result.RestartRequired)

		result, err = d.DefineDomain(t.Context(), spec)
		require.NoError(t, err)
		require.Equal(t, fields, result.Changed)
		require.Empty(t, result.RestartRequired)
	})

	t.Run("and CPUs up to the maximum come without a restart", func(t *testing.T) {
		more := spec
		more.CPUs = 2

		result, err := d.DefineDomain(t.Context(), more)
		require.NoError(t, err)
		require.Equal(t, []string{hypervisor.FieldCPUs}, result.Changed)
		require.Empty(t, result.RestartRequired)
	})

	t.Run("and its disk grows while it runs", func(t *testing.T) {
		_, created, err := d.EnsureVolume(t.Context(), hypervisor.VolumeSpec{Name: "v62.root.qcow2", Size: 32 * resources.MiB})
		require.NoError(t, err)
		require.False(t, created)

		out, err := daemon.Virsh("domblkinfo", "v62", "vda")
		require.NoError(t, err)
		require.Contains(t, out, "33554432")
	})
}

func TestADomainThatIsUndefinedWhileItRunsIsDefinedAgain(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())
	spec := small("transient")
	defined(t, d, spec)
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, true))

	_, err := daemon.Virsh("undefine", "transient")
	require.NoError(t, err)

	seen, err := d.Domain(t.Context(), spec.UUID)
	require.NoError(t, err)
	require.Equal(t, gatewayID, seen.Gateway)
	require.True(t, seen.Transient)

	all, err := d.Domains(t.Context())
	require.NoError(t, err)
	require.True(t, all[0].Transient)

	defined(t, d, spec)

	seen, err = d.Domain(t.Context(), spec.UUID)
	require.NoError(t, err)
	require.False(t, seen.Transient)

	out, err := daemon.Virsh("list", "--persistent", "--name")
	require.NoError(t, err)
	require.Equal(t, "transient", out)
}

func TestVolumesOnQEMU(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())
	image := daemon.Path("/var/lib/libvirt/images/base.qcow2")

	out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", image, "24M").CombinedOutput()
	require.NoError(t, err, string(out))

	ensure := func(spec hypervisor.VolumeSpec) (string, bool, error) { return d.EnsureVolume(t.Context(), spec) }
	spec := hypervisor.VolumeSpec{Name: "vol.root.qcow2", Backing: "/var/lib/libvirt/images/base.qcow2", BackingFormat: "qcow2"}

	path, created, err := ensure(spec)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, "/var/lib/libvirt/images/gateway-"+gatewayID+"/vol.root.qcow2", path)

	t.Run("without a size are as large as their image", func(t *testing.T) {
		out, err := daemon.Virsh("vol-dumpxml", path)
		require.NoError(t, err)
		require.Contains(t, out, "<capacity unit='bytes'>25165824</capacity>")
	})

	t.Run("whose creation was interrupted are made anew", func(t *testing.T) {
		require.NoError(t, os.Truncate(daemon.Path(path), 0))

		_, created, err := ensure(spec)
		require.NoError(t, err)
		require.True(t, created)
	})

	t.Run("that were taken away behind our back are never made anew when they held data", func(t *testing.T) {
		aside := daemon.Path(path) + ".aside"
		require.NoError(t, os.Rename(daemon.Path(path), aside))

		held := spec
		held.MustExist = true

		_, _, err := ensure(held)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)

		require.NoError(t, os.Rename(aside, daemon.Path(path)))

		again, created, err := ensure(held)
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, path, again)
	})

	testStrangeVolumes(t, daemon, filepath.Dir(path), ensure, d)
}

// testStrangeVolumes asks for volumes that are not what they seem.
func testStrangeVolumes(t *testing.T, daemon *libvirtd.Daemon, pool string, ensure func(hypervisor.VolumeSpec) (string, bool, error), d *driver) {
	t.Helper()

	t.Run("that came without libvirt's knowledge are not overwritten", func(t *testing.T) {
		by := filepath.Join(pool, "hand.root.qcow2")
		out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", daemon.Path(by), "8M").CombinedOutput()
		require.NoError(t, err, string(out))

		got, created, err := ensure(hypervisor.VolumeSpec{Name: "hand.root.qcow2", Size: 16 * resources.MiB})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, by, got)
	})

	t.Run("have no names that lead elsewhere", func(t *testing.T) {
		for _, name := range []string{"", "../x", "a/b", ".hidden"} {
			_, _, err := ensure(hypervisor.VolumeSpec{Name: name, Size: resources.MiB})
			require.ErrorIs(t, err, hypervisor.ErrInvalid)
			require.ErrorIs(t, d.RemoveVolume(t.Context(), name), hypervisor.ErrInvalid)
		}
	})
}

func TestNetworksWithNATReachTheirState(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())
	spec := hypervisor.NetworkSpec{
		Name: "nat", UUID: hypervisor.NetworkUUID(gatewayID, "nat"), Mode: resources.NetworkNAT, Subnet: "10.63.0.0/24",
		First: "10.63.0.2", Last: "10.63.0.254", Bridge: "gwnat", Domain: "nat.example",
	}

	for i, want := range []bool{true, false} {
		changed, err := d.EnsureNetwork(t.Context(), spec)
		require.NoError(t, err)
		require.Equal(t, want, changed, "pass %d", i)
	}

	spec.Last = "10.63.0.200"

	changed, err := d.EnsureNetwork(t.Context(), spec)
	require.NoError(t, err)
	require.True(t, changed)

	t.Run("and are not restarted under a guest", func(t *testing.T) {
		domain := small("on-nat")
		domain.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:63:00:01", Network: "nat"}}
		defined(t, d, domain)
		require.NoError(t, d.StartDomain(t.Context(), domain.UUID, true))

		other := spec
		other.Last = "10.63.0.100"

		_, err := d.EnsureNetwork(t.Context(), other)
		require.ErrorIs(t, err, hypervisor.ErrBusy)

		changed, err := d.EnsureNetwork(t.Context(), spec)
		require.NoError(t, err)
		require.False(t, changed, "nothing of it was done")
	})
}

func TestCaseV42ALeaseIsGoneWhenItIsReleased(t *testing.T) {
	t.Parallel()

	daemon := libvirtd.New(t, libvirtd.Options{})
	guest := libvirtd.NeedGuest(t)
	d := opened(t, daemon.URI())
	host := hypervisor.NetworkHost{MAC: "52:54:00:42:00:01", Address: "10.42.0.11", Name: "v42"}

	_, err := d.EnsureNetwork(t.Context(), hypervisor.NetworkSpec{
		Name: "v42", UUID: hypervisor.NetworkUUID(gatewayID, "v42"), Mode: resources.NetworkIsolated, Subnet: "10.42.0.0/24",
		First: "10.42.0.100", Last: "10.42.0.200", Bridge: "gwv42", Hosts: []hypervisor.NetworkHost{host},
	})
	require.NoError(t, err)

	spec := small("v42")
	spec.Memory = 128 * resources.MiB
	spec.Boot = &resources.Boot{Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: guest.Cmdline}
	spec.Interfaces = []hypervisor.DomainInterface{{MAC: host.MAC, Network: "v42"}}
	defined(t, d, spec)
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, false))

	var leases []libvirt.NetworkDHCPLease

	read := func() int {
		require.NoError(t, do(t.Context(), d, request{lane: d.reads}, func(c *libvirt.Connect) error {
			net, err := c.LookupNetworkByName("v42")
			if err != nil {
				return err
			}
			defer freeNetwork(net)

			leases, err = net.GetDHCPLeases()

			return err
		}))

		return len(leases)
	}

	require.Eventually(t, func() bool { return read() == 1 }, time.Minute, 100*time.Millisecond)
	require.Equal(t, host.Address, leases[0].IPaddr)
	require.Less(t, time.Until(leases[0].ExpiryTime), 3*time.Minute, "a lease that can't be released is short")

	require.NoError(t, d.ForceOff(t.Context(), spec.UUID))
	require.NoError(t, inNetworkOf(daemon, func() error { return sendRelease("gwv42", "10.42.0.1", leases[0]) }))
	require.Eventually(t, func() bool { return read() == 0 }, 10*time.Second, 50*time.Millisecond)
}

// inNetworkOf runs fn in the network namespace of a daemon, as a gateway on the hypervisor itself would.
func inNetworkOf(daemon *libvirtd.Daemon, fn func() error) error {
	done := make(chan error)

	go func() {
		// The thread is thrown away with its namespace when the goroutine ends without unlocking it.
		runtime.LockOSThread()

		done <- func() error {
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", daemon.PID()))
			if err != nil {
				return err
			}
			defer ns.Close()

			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}

			return fn()
		}()
	}()

	return <-done
}

func TestADefinitionOfAGuestLosesNothingWhenItIsWrittenBack(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())
	spec := small("lossless")
	spec.Graphics, spec.GuestAgent = "vnc", true
	defined(t, d, spec)

	for _, args := range [][]string{{"lossless", "--inactive"}, {"lossless"}} {
		text, err := daemon.Virsh(slices.Concat([]string{"dumpxml"}, args)...)
		require.NoError(t, err)

		doc, err := definition.Parse(text)
		require.NoError(t, err)

		lost, err := definition.Lost(text, doc)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
}
