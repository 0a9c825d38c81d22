//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
	"gateway/test/libvirtd"
)

// opened connects to a URI for the length of a test.
func opened(t *testing.T, uri string) *driver {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	d, err := Open(ctx, uri, gatewayID)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })

	return d.(*driver)
}

// small returns the spec of a small domain.
func small(vm string) hypervisor.DomainSpec {
	return hypervisor.DomainSpec{
		Name: vm, VM: vm, UUID: hypervisor.DomainUUID(gatewayID, vm), Revision: 1,
		CPUs: 1, Memory: 64 * resources.MiB, Firmware: "bios", Graphics: "none",
	}
}

func defined(t *testing.T, d *driver, spec hypervisor.DomainSpec) {
	t.Helper()

	_, err := d.DefineDomain(t.Context(), spec)
	require.NoError(t, err)
}

func TestCaseV64AHungDaemonIsFoundAndADomainIsLeftAlone(t *testing.T) {
	t.Parallel()

	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.TestURI())
	spec := small("v64")
	defined(t, d, spec)
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, false))

	ended := make(chan error, 1)
	ready := make(chan struct{})

	go func() {
		ended <- d.Events(t.Context(), func() { close(ready) }, func(hypervisor.Event) {})
	}()
	<-ready

	require.NoError(t, daemon.Stop())
	t.Cleanup(func() { require.NoError(t, daemon.Cont()) })

	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, err := d.Domain(ctx, spec.UUID)
	cancel()
	require.ErrorIs(t, err, hypervisor.ErrUnreachable)
	require.NotErrorIs(t, err, hypervisor.ErrConnectionLost, "the daemon may still come back")
	require.Less(t, time.Since(began), 5*time.Second, "a call ends with its deadline")

	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	require.ErrorIs(t, d.Pause(ctx, spec.UUID), hypervisor.ErrUnreachable)
	cancel()
	require.ErrorIs(t, d.ForceOff(t.Context(), spec.UUID), hypervisor.ErrBusy, "a domain with a call that was not answered is set aside")

	select {
	case err := <-ended:
		require.ErrorIs(t, err, hypervisor.ErrConnectionLost)
	case <-time.After(40 * time.Second):
		require.Fail(t, "the keepalive never found out")
	}

	_, err = d.Domains(t.Context())
	require.ErrorIs(t, err, hypervisor.ErrConnectionLost)

	began = time.Now()
	require.NoError(t, d.Close())
	require.Less(t, time.Since(began), 2*closeGrace, "closing does not wait for a daemon that hangs")
}

func TestCaseV64RunningDomainsSurviveTheDaemon(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	spec := small("v64-qemu")

	before := opened(t, daemon.URI())
	defined(t, before, spec)
	require.NoError(t, before.StartDomain(t.Context(), spec.UUID, true))

	seen, err := before.Domain(t.Context(), spec.UUID)
	require.NoError(t, err)

	require.NoError(t, daemon.Restart(t.Context()))
	require.Eventually(t, before.isLost, 10*time.Second, 10*time.Millisecond)

	_, err = before.Domain(t.Context(), spec.UUID)
	require.ErrorIs(t, err, hypervisor.ErrConnectionLost)

	after, err := opened(t, daemon.URI()).Domain(t.Context(), spec.UUID)
	require.NoError(t, err)
	require.Equal(t, seen.State, after.State)
	require.Equal(t, seen.Spec, after.Spec)
}

func TestCaseV80EverythingOfADomainGoesWithIt(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.URI())

	path, _, err := d.EnsureVolume(t.Context(), hypervisor.VolumeSpec{Name: "v80.root.qcow2", Size: 16 * resources.MiB})
	require.NoError(t, err)

	spec := small("v80")
	spec.Firmware = "uefi"
	spec.Memory = 128 * resources.MiB
	spec.Disks = []hypervisor.DomainDisk{{Name: "root", Path: path, Format: "qcow2"}}
	defined(t, d, spec)

	for _, args := range [][]string{
		{"autostart", "v80"},
		{"start", "v80"},
		{"managedsave", "v80"},
	} {
		_, err := daemon.Virsh(args...)
		require.NoError(t, err)
	}

	nvram := daemon.Path("/var/lib/libvirt/qemu/nvram/v80_VARS.fd")
	require.FileExists(t, nvram)

	seen, err := d.Domain(t.Context(), spec.UUID)
	require.NoError(t, err)
	require.True(t, seen.Autostart)
	require.Equal(t, "saved", seen.Reason)

	// A snapshot's metadata without a snapshot: QEMU can't keep one of a UEFI domain inside the disk.
	snapshot := filepath.Join(t.TempDir(), "snapshot.xml")
	require.NoError(t, os.WriteFile(snapshot, []byte("<domainsnapshot><name>s</name><disks><disk name='vda' snapshot='external'/></disks></domainsnapshot>"), 0o600))
	_, err = daemon.Virsh("snapshot-create", "v80", snapshot, "--disk-only")
	require.NoError(t, err)

	for range 2 {
		require.NoError(t, d.UndefineDomain(t.Context(), spec.UUID))
	}

	_, err = d.Domain(t.Context(), spec.UUID)
	require.ErrorIs(t, err, hypervisor.ErrNotFound)
	require.NoFileExists(t, nvram)
	require.NoFileExists(t, daemon.Path("/var/lib/libvirt/qemu/save/v80.save"))
	require.NoFileExists(t, daemon.Path("/etc/libvirt/qemu/autostart/v80.xml"))

	for range 2 {
		require.NoError(t, d.RemoveVolume(t.Context(), "v80.root.qcow2"))
	}

	require.NoFileExists(t, daemon.Path(path))
}

func TestAListOfManyDomainsIsWhole(t *testing.T) {
	if testing.Short() {
		libvirtd.Skip(t, errors.New("a list of 2,000 domains takes too long for -short"))
	}

	const many = 2000

	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.TestURI())

	began := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)

	for i := range many {
		group.Go(func() error {
			spec := small(fmt.Sprintf("many-%d", i))
			_, err := d.DefineDomain(ctx, spec)
			if err == nil && i%2 == 0 {
				err = d.StartDomain(ctx, spec.UUID, false)
			}

			return err
		})
	}

	require.NoError(t, group.Wait())
	t.Logf("%d domains defined, half of them started: %s", many, time.Since(began))

	began = time.Now()
	all, err := d.Domains(t.Context())
	require.NoError(t, err)
	require.Len(t, all, many+1) // with the one that the test driver starts with
	t.Logf("listed: %s", time.Since(began))

	on := 0

	for _, domain := range all {
		require.NotEmpty(t, domain.UUID)

		if domain.State == resources.StateRunning {
			on++
		}
	}

	require.Equal(t, many/2+1, on)
}

func TestAStartThatFailsForKVMIsTold(t *testing.T) {
	d := &driver{host: definition.Host{Driver: definition.DriverQEMU}}

	for message, want := range map[string]bool{
		"internal error: process exited while connecting to monitor: Could not access KVM kernel module: Permission denied": true,
		"qemu-system-x86_64: -accel kvm: failed to initialize kvm: No such device":                                          true,
		"qemu-system-x86_64: -drive file=/kvm/x: Could not open '/kvm/x': No such file or directory":                        false,
		"Cannot access storage file '/failed': No such file or directory":                                                   false,
	} {
		require.Equal(t, want, d.lacksKVM(libvirt.Error{Code: libvirt.ERR_INTERNAL_ERROR, Message: message}), message)
	}

	require.False(t, d.lacksKVM(nil))
}

func TestAHostWhoseKVMDoesNotWorkEmulates(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{KVM: true})
	d := opened(t, daemon.URI())

	if !d.madeOf().KVM {
		libvirtd.Skip(t, errors.New("libvirt offers no KVM here"))
	}

	spec := small("kvm")
	defined(t, d, spec)

	text, err := daemon.Virsh("dumpxml", "kvm", "--inactive")
	require.NoError(t, err)
	require.Contains(t, text, "<domain type='kvm'")

	// What StartDomain does when the start fails for KVM.
	require.NoError(t, do(t.Context(), d, request{lane: d.writes}, func(c *libvirt.Connect) error {
		dom, err := c.LookupDomainByUUIDString(spec.UUID)
		if err != nil {
			return err
		}
		defer freeDomain(dom)

		return d.emulate(c, dom)
	}))
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, true))

	text, err = daemon.Virsh("dumpxml", "kvm")
	require.NoError(t, err)
	require.Contains(t, text, "<domain type='qemu'")

	about, err := d.Info(t.Context())
	require.NoError(t, err)
	require.False(t, about.KVM)

	result, err := d.DefineDomain(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, hypervisor.DefineResult{}, result, "the change of type is no drift")
}

// The test driver answers whatever way it is asked for addresses in.
func TestAnAddressIsNamedAfterTheWayInWhichItIsKnown(t *testing.T) {
	t.Parallel()

	daemon := libvirtd.New(t, libvirtd.Options{})
	d := opened(t, daemon.TestURI())
	spec := small("addressed")
	spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:00:00:77", Network: "default"}}
	defined(t, d, spec)
	require.NoError(t, d.StartDomain(t.Context(), spec.UUID, false))

	addresses, err := d.Addresses(t.Context(), spec.UUID)
	require.NoError(t, err)

	sources := map[string]string{}
	for _, a := range addresses {
		sources[a.Source] = a.MAC
	}

	require.Equal(t, map[string]string{"lease": "52:54:00:00:00:77", "arp": "52:54:00:00:00:77"}, sources, "no agent is connected, so that none is asked")
}
