package hypervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

func TestDifferences(t *testing.T) {
	type spec = hypervisor.DomainSpec

	base := spec{Name: "web", UUID: "u", VM: "web", CPUs: 2, Memory: resources.GiB}

	for name, c := range map[string]struct {
		change func(*spec)
		want   []string
	}{
		"nothing":                       {func(*spec) {}, nil},
		"defaults that are written out": {func(s *spec) { s.Firmware, s.Graphics, s.MaxCPUs, s.MaxMemory = "bios", "none", 2, resources.GiB }, nil},
		"less than a KiB of memory":     {func(s *spec) { s.Memory -= 1023 }, nil},
		"adopt, which is no part of it": {func(s *spec) { s.Adopt = true }, nil},
		"memory alone":                  {func(s *spec) { s.Memory *= 2 }, []string{"memory"}},
		"a maximum alone":               {func(s *spec) { s.MaxMemory = 2 * resources.GiB }, []string{"maxMemory"}},
		"CPUs and their maximum":        {func(s *spec) { s.CPUs, s.MaxCPUs = 3, 4 }, []string{"cpus", "maxCpus"}},
		"a boot that was not there":     {func(s *spec) { s.Boot = &resources.Boot{Kernel: "/k"} }, []string{"boot"}},
		"disks, interfaces and guest agent": {func(s *spec) {
			s.Disks, s.Interfaces, s.GuestAgent = []hypervisor.DomainDisk{{Name: "root"}}, []hypervisor.DomainInterface{{Bridge: "br0"}}, true
		}, []string{"disks", "interfaces", "guestAgent"}},
		"texts and mark":                    {func(s *spec) { s.Name, s.Description, s.Revision = "w", "d", 2 }, []string{"name", "description", "mark"}},
		"the kind of firmware and graphics": {func(s *spec) { s.Firmware, s.Graphics = "uefi", "vnc" }, []string{"firmware", "graphics"}},
	} {
		t.Run("are "+name, func(t *testing.T) {
			changed := base
			c.change(&changed)

			a, b := base.Normalised(), changed.Normalised()
			require.Equal(t, c.want, a.Differences(&b))
			require.Equal(t, c.want, b.Differences(&a))
		})
	}
}

func TestNormalisedSharesNothing(t *testing.T) {
	spec := hypervisor.DomainSpec{
		Boot:       &resources.Boot{Kernel: "/k"},
		Disks:      []hypervisor.DomainDisk{{Name: "root"}},
		Interfaces: []hypervisor.DomainInterface{{MAC: "52:54:00:AA:BB:CC"}},
	}
	normal := spec.Normalised()
	normal.Boot.Kernel, normal.Disks[0].Name = "/other", "other"

	require.Equal(t, "/k", spec.Boot.Kernel)
	require.Equal(t, "root", spec.Disks[0].Name)
	require.Equal(t, "52:54:00:AA:BB:CC", spec.Interfaces[0].MAC)
	require.Equal(t, "52:54:00:aa:bb:cc", normal.Interfaces[0].MAC)
}
