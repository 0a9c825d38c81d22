package hypervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// adoptable is a domain that no gateway made, as it is observed.
func adoptable() hypervisor.DomainSpec {
	spec := hypervisor.DomainSpec{
		Name: "old", CPUs: 1, Memory: resources.GiB,
		Disks: []hypervisor.DomainDisk{
			{Name: "hda", Path: "/images/old.img", Format: "qcow2", Foreign: true},
			{Name: "fda", Path: "/images/floppy.img", Format: "raw", Foreign: true},
			{Name: "hdc", Path: "/images/seed.iso", Format: "iso", CDROM: true, ReadOnly: true, Foreign: true},
		},
		Interfaces: []hypervisor.DomainInterface{
			{MAC: "52:54:00:00:00:01", Network: "default", Foreign: true},
			{MAC: "52:54:00:00:00:02", Foreign: true},
		},
	}

	return spec.Normalised()
}

func TestDevicesOfOthersAreComparedOnlyWhereASpecNamesThem(t *testing.T) {
	disk := hypervisor.DomainDisk{Name: "root", Path: "/images/old.img", Format: "qcow2"}
	nic := hypervisor.DomainInterface{MAC: "52:54:00:00:00:01", Network: "default"}

	for name, test := range map[string]struct {
		disks      []hypervisor.DomainDisk
		interfaces []hypervisor.DomainInterface
		want       []string
	}{
		"nothing is named": {},
		"all is named as it is": {
			disks:      []hypervisor.DomainDisk{disk, {Name: "seed", Path: "/images/seed.iso", Format: "raw", CDROM: true}},
			interfaces: []hypervisor.DomainInterface{nic},
		},
		"a disk in another format": {
			disks: []hypervisor.DomainDisk{{Name: "root", Path: "/images/old.img", Format: "raw"}}, want: []string{hypervisor.FieldDisks},
		},
		"a disk that is to be read-only": {
			disks: []hypervisor.DomainDisk{{Name: "root", Path: "/images/old.img", Format: "qcow2", ReadOnly: true}}, want: []string{hypervisor.FieldDisks},
		},
		"a disk that is not there": {
			disks: []hypervisor.DomainDisk{disk, {Name: "data", Path: "/images/data.img"}}, want: []string{hypervisor.FieldDisks},
		},
		"an interface on another network": {
			interfaces: []hypervisor.DomainInterface{{MAC: nic.MAC, Network: "lan"}}, want: []string{hypervisor.FieldInterfaces},
		},
		"an interface that is not there": {
			interfaces: []hypervisor.DomainInterface{nic, {MAC: "52:54:00:00:00:03", Network: "default"}}, want: []string{hypervisor.FieldInterfaces},
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen, wanted := adoptable(), adoptable()
			wanted.Disks, wanted.Interfaces = test.disks, test.interfaces

			require.Equal(t, test.want, wanted.Differences(&seen))
			require.Equal(t, test.want, seen.Differences(&wanted))

			// Once it is so, it stays so, with all that the spec does not name.
			applied := wanted.Normalised()
			applied.KeepForeign(&seen)
			require.Empty(t, wanted.Differences(&applied))
			require.GreaterOrEqual(t, len(applied.Disks), len(seen.Disks))
			require.GreaterOrEqual(t, len(applied.Interfaces), len(seen.Interfaces))
		})
	}
}

func TestADomainIsTakenOnlyFromWhoIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		spec    hypervisor.DomainSpec
		gateway string
		want    bool
	}{
		"from nobody, without being asked":     {hypervisor.DomainSpec{}, "", false},
		"from nobody":                          {hypervisor.DomainSpec{Adopt: true}, "", true},
		"from another, who is not named":       {hypervisor.DomainSpec{Adopt: true}, "other", false},
		"from another than the one named":      {hypervisor.DomainSpec{Adopt: true, AdoptFrom: "lost"}, "other", false},
		"from the one named":                   {hypervisor.DomainSpec{Adopt: true, AdoptFrom: "lost"}, "lost", true},
		"from nobody, where somebody is named": {hypervisor.DomainSpec{Adopt: true, AdoptFrom: "lost"}, "", true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, test.spec.MayTake(test.gateway)) })
	}
}
