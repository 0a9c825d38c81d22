package definition_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

var (
	one = hypervisor.NetworkHost{MAC: "52:54:00:00:00:01", Address: "10.7.0.11", Name: "one"}
	two = hypervisor.NetworkHost{MAC: "52:54:00:00:00:02", Address: "10.7.0.12", Name: "two"}
)

func lan(hosts ...hypervisor.NetworkHost) *hypervisor.NetworkSpec {
	return &hypervisor.NetworkSpec{
		Name: "lan", UUID: hypervisor.NetworkUUID("home", "lan"), Mode: resources.NetworkNAT, Subnet: "10.7.0.0/24",
		First: "10.7.0.100", Last: "10.7.0.199", Domain: "lan.example", Bridge: "gw0", Hosts: hosts,
	}
}

func networkOf(t *testing.T, spec *hypervisor.NetworkSpec) *libvirtxml.Network {
	t.Helper()

	doc := &libvirtxml.Network{}
	require.NoError(t, definition.SetNetwork(doc, spec, qemuHost))

	text, err := doc.Marshal()
	require.NoError(t, err)

	again, err := definition.ParseNetwork(text)
	require.NoError(t, err)

	return again
}

func TestANetworkIsTheSameUnlessMoreThanItsHostsDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*hypervisor.NetworkSpec)
		same   bool
	}{
		"nothing":     {func(*hypervisor.NetworkSpec) {}, true},
		"other hosts": {func(s *hypervisor.NetworkSpec) { s.Hosts = nil }, true},
		"its mode":    {func(s *hypervisor.NetworkSpec) { s.Mode = resources.NetworkIsolated }, false},
		"its subnet":  {func(s *hypervisor.NetworkSpec) { s.Subnet = "10.7.0.0/25" }, false},
		"its range":   {func(s *hypervisor.NetworkSpec) { s.Last = "10.7.0.198" }, false},
		"its domain":  {func(s *hypervisor.NetworkSpec) { s.Domain = "" }, false},
		"its bridge":  {func(s *hypervisor.NetworkSpec) { s.Bridge = "gw1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := lan(one)
			test.change(spec)
			require.Equal(t, test.same, definition.SameNetwork(networkOf(t, lan(one)), networkOf(t, spec)))
		})
	}
}

func TestASubnetThatIsNoneIsRefused(t *testing.T) {
	spec := lan()
	spec.Subnet = "10.7.0.0"
	require.ErrorIs(t, definition.SetNetwork(&libvirtxml.Network{}, spec, qemuHost), hypervisor.ErrInvalid)
}

func TestCaseV45HostsAreChangedOneByOne(t *testing.T) {
	type change struct{ dns, add bool }

	moved := two
	moved.Address = one.Address

	for name, test := range map[string]struct {
		have, want []hypervisor.NetworkHost
		changes    []change
	}{
		"none":                              {[]hypervisor.NetworkHost{one, two}, []hypervisor.NetworkHost{two, one}, nil},
		"a host that comes":                 {[]hypervisor.NetworkHost{one}, []hypervisor.NetworkHost{one, two}, []change{{false, true}, {true, true}}},
		"a host that goes":                  {[]hypervisor.NetworkHost{one, two}, []hypervisor.NetworkHost{one}, []change{{true, false}, {false, false}}},
		"an address that changes its owner": {[]hypervisor.NetworkHost{one}, []hypervisor.NetworkHost{moved}, []change{{true, false}, {false, false}, {false, true}, {true, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := definition.HostChanges(networkOf(t, lan(test.have...)), test.want)
			require.NoError(t, err)

			var changes []change
			for _, c := range got {
				changes = append(changes, change{c.DNS, c.Add})
			}

			require.Equal(t, test.changes, changes)
		})
	}
}

func TestANameIsGivenToItsFirstHostOnly(t *testing.T) {
	second := two
	second.Name, second.MAC = one.Name, "52:54:00:00:00:0A"

	doc := networkOf(t, lan(one, second))
	require.Equal(t, []hypervisor.NetworkHost{one, {MAC: "52:54:00:00:00:0a", Address: second.Address}}, definition.HostsOf(doc))

	changes, err := definition.HostChanges(doc, []hypervisor.NetworkHost{one, second})
	require.NoError(t, err)
	require.Empty(t, changes, "and that is no difference afterwards")
}

func TestAVolumeWhoseCreationWasInterruptedIsToldFromOneInUse(t *testing.T) {
	spec := &hypervisor.VolumeSpec{Name: "web.root.qcow2", Size: resources.GiB, Backing: "/images/debian.qcow2", BackingFormat: "qcow2"}
	whole := definition.VolumeState{Format: "qcow2", Capacity: resources.GiB, Backing: spec.Backing, Allocation: 200 * resources.KiB}

	for name, test := range map[string]struct {
		change     func(*definition.VolumeState)
		unfinished bool
	}{
		"one that is whole":                    {func(*definition.VolumeState) {}, false},
		"a file without a header":              {func(s *definition.VolumeState) { s.Format, s.Allocation = "raw", 0 }, true},
		"a header without a size":              {func(s *definition.VolumeState) { s.Capacity = 0 }, true},
		"one without its image":                {func(s *definition.VolumeState) { s.Backing = "" }, true},
		"one that was merged with its image":   {func(s *definition.VolumeState) { s.Backing, s.Allocation = "", resources.MiB }, false},
		"data in a format that nobody expects": {func(s *definition.VolumeState) { s.Format, s.Allocation = "raw", resources.GiB }, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := whole
			test.change(&state)
			require.Equal(t, test.unfinished, state.Unfinished(spec))
		})
	}
}
