package network_test

import (
	"fmt"
	"testing"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/network"
	"gateway/controllers/placement"
	"gateway/resources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig runs placement, network and a stand-in for vm, on a large host a.
func rig(t *testing.T) *chaintest.Rig {
	t.Helper()

	g := chaintest.New(t, controllers)
	g.AddHost("a", resources.Capacity{CPUs: 100000, Memory: 64 * resources.TiB})
	g.Settle()

	return g
}

func controllers(g *chaintest.Rig) []controller.QController {
	return []controller.QController{
		placement.New(placement.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID}),
		network.New(network.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, Barrier: g.Store, Journal: g.Store.Journal()}),
		&chaintest.FakeVM{Pool: g.Pool},
	}
}

// lan declares a network with as many addresses for VMs as given.
func lan(g *chaintest.Rig, name string, addresses int) {
	g.T.Helper()

	n := resources.NewNetwork(name)
	n.TypedSpec().Subnet = "10.7.0.0/24"
	n.TypedSpec().Range = []string{"10.7.0.100", fmt.Sprintf("10.7.0.%d", 99+addresses)}
	g.Create(n)
}

// vm declares a VM with interfaces.
func vm(name string, interfaces ...resources.Interface) *resources.VMConfig {
	v := resources.NewVMConfig(name)
	v.TypedSpec().Interfaces = interfaces
	v.TypedSpec().Memory = 16 * resources.MiB

	return v
}

func on(network string) resources.Interface { return resources.Interface{Network: network} }

// config returns the NetworkConfig of a VM as it is.
func config(g *chaintest.Rig, name string) resources.NetworkConfigSpec {
	g.T.Helper()

	c := chaintest.Get(g, resources.NewNetworkConfig(name))
	require.NotNil(g.T, c, "NetworkConfig of %s", name)

	return *c.TypedSpec()
}

// requireNothingLeft checks that nobody leaves anything behind, and that no rule was broken on the way.
func requireNothingLeft(g *chaintest.Rig) {
	g.T.Helper()

	require.Empty(g.T, g.World.Violations())

	for _, h := range g.World.Hosts() {
		require.Empty(g.T, g.Networks(h.Name()), "networks of host %s", h.Name())
	}

	require.Empty(g.T, g.Left())
}

// removeAll deletes everything that is declared, at once, as a directory that is deleted.
func removeAll(g *chaintest.Rig) {
	g.T.Helper()

	for _, n := range chaintest.List(g, resources.NewNetwork("")) {
		g.Delete(n.Metadata())
	}

	for _, h := range chaintest.List(g, resources.NewHost("")) {
		g.Delete(h.Metadata())
	}

	for _, v := range chaintest.List(g, resources.NewVMConfig("")) {
		g.Delete(v.Metadata())
	}
}
