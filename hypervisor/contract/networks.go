package contract

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// networkSpec returns a network that is not there yet, and is removed when the test ends.
func (f *fixture) networkSpec() hypervisor.NetworkSpec {
	f.Helper()

	n := sequence.Add(1)
	name := fmt.Sprintf("contract-net-%d", n)
	f.Cleanup(func() {
		d := f.h.Open(f.T)
		defer func() { require.NoError(f, d.Close()) }()

		require.NoError(f, d.RemoveNetwork(f.ctx(), name))
	})

	subnet := 50 + n%200

	return hypervisor.NetworkSpec{
		Name: name, UUID: hypervisor.NetworkUUID(f.h.Gateway, name), Mode: resources.NetworkIsolated,
		Subnet: fmt.Sprintf("10.251.%d.0/24", subnet), First: fmt.Sprintf("10.251.%d.100", subnet), Last: fmt.Sprintf("10.251.%d.199", subnet),
		Domain: "contract.example", Bridge: hypervisor.BridgeName(f.h.Gateway, name),
		Hosts: []hypervisor.NetworkHost{{MAC: "52:54:00:aa:00:01", Address: fmt.Sprintf("10.251.%d.11", subnet), Name: "one"}},
	}
}

// network reads a network by name.
func (f *fixture) network(name string) (hypervisor.Network, bool) {
	f.Helper()

	all, err := f.driver.Networks(f.ctx())
	require.NoError(f, err)

	i := slices.IndexFunc(all, func(n hypervisor.Network) bool { return n.Name == name })
	if i < 0 {
		return hypervisor.Network{}, false
	}

	return all[i], true
}

// ensure makes a network, and requires that this changed something, or nothing.
func (f *fixture) ensure(spec hypervisor.NetworkSpec, wantChange bool) {
	f.Helper()

	changed, err := f.driver.EnsureNetwork(f.ctx(), spec)
	require.NoError(f, err)
	require.Equal(f, wantChange, changed)

	seen, ok := f.network(spec.Name)
	require.True(f, ok)
	require.True(f, seen.Ours)
	require.True(f, seen.Active)
	require.Equal(f, spec.UUID, seen.UUID)
	require.Equal(f, spec.Bridge, seen.Bridge)
	require.ElementsMatch(f, spec.Hosts, seen.Hosts)
}

func testNetworks(t *testing.T, h *Harness) {
	need(t, h.Capabilities.Networks, "networks")

	t.Run("are made once, and removed once", func(t *testing.T) {
		f := begin(t, h)
		spec := f.networkSpec()

		f.ensure(spec, true)
		f.ensure(spec, false)

		for range 2 {
			require.NoError(t, f.driver.RemoveNetwork(f.ctx(), spec.Name))

			_, found := f.network(spec.Name)
			require.False(t, found)
		}

		f.ensure(spec, true)
	})

	testNetworkHosts(t, h)
	testForeignNetworks(t, h)
	testLeases(t, h)
}

func testNetworkHosts(t *testing.T, h *Harness) {
	t.Run("change their hosts without a restart (V45)", func(t *testing.T) {
		f := begin(t, h)
		spec := f.networkSpec()
		f.ensure(spec, true)

		starts := func() int { return 0 }
		if h.Behind.NetworkStarts != nil {
			starts = func() int { return h.Behind.NetworkStarts(t, spec.Name) }
		}

		before := starts()
		second := spec.Hosts[0]
		second.MAC, second.Name = "52:54:00:aa:00:02", "two"
		second.Address = second.Address[:len(second.Address)-1] + "2"

		spec.Hosts = []hypervisor.NetworkHost{second, spec.Hosts[0]}
		f.ensure(spec, true)
		f.ensure(spec, false)

		slices.Reverse(spec.Hosts)
		f.ensure(spec, false) // order is no difference

		spec.Hosts = []hypervisor.NetworkHost{second}
		f.ensure(spec, true)

		moved := second
		moved.Address = moved.Address[:len(moved.Address)-1] + "3"
		spec.Hosts = []hypervisor.NetworkHost{moved}
		f.ensure(spec, true)

		spec.Hosts = nil
		f.ensure(spec, true)
		require.Equal(t, before, starts())
	})
}

func testForeignNetworks(t *testing.T, h *Harness) {
	t.Run("of others are refused untouched", func(t *testing.T) {
		need(t, h.Behind.DefineNetwork != nil && h.Behind.RemoveNetwork != nil, "foreign networks")

		f := begin(t, h)
		spec := f.networkSpec()
		h.Behind.DefineNetwork(t, spec.Name)
		t.Cleanup(func() { h.Behind.RemoveNetwork(t, spec.Name) })

		before, ok := f.network(spec.Name)
		require.True(t, ok)
		require.False(t, before.Ours)

		_, err := f.driver.EnsureNetwork(f.ctx(), spec)
		require.ErrorIs(t, err, hypervisor.ErrForeign)
		require.ErrorIs(t, f.driver.RemoveNetwork(f.ctx(), spec.Name), hypervisor.ErrForeign)

		after, _ := f.network(spec.Name)
		require.Equal(t, before, after)
	})
}

func testLeases(t *testing.T, h *Harness) {
	t.Run("give a running guest the address of its entry", func(t *testing.T) {
		need(t, h.Capabilities.DHCP, "DHCP")

		f := begin(t, h)
		spec := f.networkSpec()
		f.ensure(spec, true)

		domain := f.spec()
		domain.Interfaces = []hypervisor.DomainInterface{{MAC: spec.Hosts[0].MAC, Network: spec.Name}}
		f.define(domain)

		addresses, err := f.driver.Addresses(f.ctx(), domain.UUID)
		require.NoError(t, err)
		require.Empty(t, addresses, "a domain that is off has none")

		f.start(domain.UUID)
		f.eventually(func() bool {
			addresses, err := f.driver.Addresses(f.ctx(), domain.UUID)
			require.NoError(t, err)

			return slices.ContainsFunc(addresses, func(a resources.Address) bool {
				return a.Address == spec.Hosts[0].Address && a.Source == "lease"
			})
		}, "the guest got no address")
	})
}
