package definition_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

func capabilities(arch, domains string) string {
	return "<capabilities><host><cpu><arch>x86_64</arch></cpu></host>" +
		"<guest><os_type>hvm</os_type><arch name='i686'><domain type='qemu'/></arch></guest>" +
		"<guest><os_type>hvm</os_type><arch name='" + arch + "'><emulator>/usr/bin/qemu</emulator>" + domains + "</arch></guest></capabilities>"
}

func TestNewDomainsAreWhatTheHostOffers(t *testing.T) {
	const both = "<domain type='qemu'/><domain type='kvm'/>"

	host, err := definition.ParseHost("QEMU", capabilities("x86_64", both), 9_000_000)
	require.NoError(t, err)
	require.Equal(t, definition.Host{
		Driver: "QEMU", Type: "kvm", OSType: "hvm", Arch: "x86_64", Emulator: "/usr/bin/qemu", Machine: "q35", KVM: true, MaximumCPU: true,
	}, host)
	require.Equal(t, "qemu", host.Emulated().Type)
	require.False(t, host.Emulated().KVM)

	host, err = definition.ParseHost("QEMU", capabilities("x86_64", "<domain type='qemu'/>"), 7_000_000)
	require.NoError(t, err)
	require.Equal(t, "qemu", host.Type)
	require.False(t, host.MaximumCPU)

	_, err = definition.ParseHost("Xen", capabilities("x86_64", both), 9_000_000)
	require.ErrorIs(t, err, hypervisor.ErrUnsupported)

	_, err = definition.ParseHost("QEMU", "<capabilities/>", 9_000_000)
	require.Error(t, err)
}
