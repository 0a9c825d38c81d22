package network_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/resources"
)

// After a loss of the state the host knows better who has which address.
func TestEntriesThatAHostHasAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)

		spec := hypervisor.NetworkSpec{
			Name: "lan", UUID: hypervisor.NetworkUUID(chaintest.GatewayID, "lan"), Mode: resources.NetworkNAT, Subnet: "10.7.0.0/24",
			First: "10.7.0.100", Last: "10.7.0.102", Bridge: hypervisor.BridgeName(chaintest.GatewayID, "lan"),
		}
		for i, address := range []string{"10.7.0.102", "10.7.0.100", "10.7.0.9"} {
			spec.Hosts = append(spec.Hosts, hypervisor.NetworkHost{MAC: hypervisor.MAC(chaintest.GatewayID, fmt.Sprintf("v-%d", i), 0, 0), Address: address})
		}

		driver, err := g.Pool.Driver("a")
		require.NoError(t, err)
		_, err = driver.EnsureNetwork(t.Context(), spec)
		require.NoError(t, err)

		lan(g, "lan", 3)

		for _, name := range []string{"new", "v-1", "v-0", "v-2"} {
			g.Create(vm(name, on("lan")))
			g.Settle()
		}

		for name, want := range map[string]string{"new": "10.7.0.101", "v-0": "10.7.0.102", "v-1": "10.7.0.100", "v-2": "10.7.0.9"} {
			require.Equal(t, want, config(g, name).Interfaces[0].Address, name)
		}

		require.LessOrEqual(t, g.World.Calls()["Networks"], int64(1), "once for a host, not for each VM")

		// What nobody comes back for is given to others in the end.
		g.Delete(resources.NewVMConfig("v-1").Metadata())
		g.Settle()
		g.Create(vm("late", on("lan")))
		g.Pass(5 * time.Second)
		require.Equal(t, "10.7.0.100", config(g, "late").Interfaces[0].Address)
	})
}
