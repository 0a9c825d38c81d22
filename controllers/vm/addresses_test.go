package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// mac is that of the interface of VM web.
const mac = "52:54:00:00:00:42"

// onLan has VM web, with an interface on a network that the gateway made, with this address.
func onLan(t *testing.T, w *world, address string, change func(*resources.VMConfigSpec)) {
	t.Helper()

	w.onNetwork("lan", address)
	w.make("web", func(s *resources.VMConfigSpec) {
		s.Interfaces = []resources.Interface{{Network: "lan"}}

		if change != nil {
			change(s)
		}
	})
	modify(w, resources.NewNetworkConfig("web"), func(s *resources.NetworkConfigSpec) { *s = lanBinding(address) })
	w.pass(5 * time.Second)
}

func lanBinding(address string) resources.NetworkConfigSpec {
	return resources.NetworkConfigSpec{
		Host: "a", Ready: true, Reason: resources.ReasonNetworkReady, Revision: 1,
		Interfaces: []resources.NetworkBinding{{Network: "lan", LibvirtNetwork: "lan", MAC: mac, Address: address, Ours: true}},
	}
}

// onNetwork makes the network, or changes its entry, as the network controller does.
func (w *world) onNetwork(name, address string) {
	w.t.Helper()

	driver, err := w.pool.Driver("a")
	require.NoError(w.t, err)

	_, err = driver.EnsureNetwork(w.t.Context(), hypervisor.NetworkSpec{
		Name: name, UUID: hypervisor.NetworkUUID(gatewayID, name), Mode: resources.NetworkNAT, Subnet: "10.7.0.0/24", First: "10.7.0.2", Last: "10.7.0.99",
		Hosts: []hypervisor.NetworkHost{{MAC: mac, Address: address}},
	})
	require.NoError(w.t, err)
}

// sources are what is said of the addresses of VM web, by who says so.
func (w *world) sources() map[string]string {
	said := map[string]string{}
	for _, a := range w.status("web").Addresses {
		said[a.Source] = a.Address
	}

	return said
}

func TestCaseV42AStaleLeaseIsNotReported(t *testing.T) {
	t.Parallel()

	t.Run("of a guest that has not renewed it", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			onLan(t, w, "10.7.0.10", nil)
			require.Equal(t, map[string]string{"declared": "10.7.0.10", "lease": "10.7.0.10"}, w.sources())

			// Its address is changed an hour later: the guest has the old one until it renews.
			w.pass(time.Hour)
			w.host().SetLease(w.status("web").DomainUUID, mac, "10.7.0.10")
			w.onNetwork("lan", "10.7.0.20")
			modify(w, resources.NewNetworkConfig("web"), func(s *resources.NetworkConfigSpec) { *s = lanBinding("10.7.0.20") })
			w.pass(time.Minute)
			require.Equal(t, map[string]string{"declared": "10.7.0.20"}, w.sources())

			w.host().SetLease(w.status("web").DomainUUID, mac, "")
			w.pass(10 * time.Second)
			require.Equal(t, map[string]string{"declared": "10.7.0.20", "lease": "10.7.0.20"}, w.sources())

			before := w.reconciles.Load()
			w.pass(time.Hour)
			require.Equal(t, before, w.reconciles.Load(), "nobody asks any more")
		})
	})

	t.Run("of somebody who had its MAC before", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			onLan(t, w, "10.7.0.10", nil)
			w.host().SetLease(w.status("web").DomainUUID, mac, "10.7.0.77")
			w.host().Destroy(w.status("web").DomainUUID)
			w.nudge("web")
			w.pass(30 * time.Second)
			require.Equal(t, resources.StateRunning, w.domain("web").State)
			require.Equal(t, "10.7.0.10", w.sources()["declared"])
			require.NotContains(t, w.sources(), "lease")
		})
	})
}

func TestEachAddressHasItsSource(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		onLan(t, w, "10.7.0.10", func(s *resources.VMConfigSpec) { s.GuestAgent = true })
		require.Equal(t, map[string]string{"declared": "10.7.0.10", "lease": "10.7.0.10", "agent": "10.7.0.10"}, w.sources())

		before := w.reconciles.Load()
		w.pass(time.Hour)
		require.Equal(t, before, w.reconciles.Load())
	})
}
