package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/contract"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestContract(t *testing.T) {
	for name, uri := range map[string]string{
		"in memory":             "sim://contract?shutdown=20ms",
		"with a booting guest":  "sim://contract?boot=50ms&shutdown=20ms",
		"with a state file":     "sim://contract?shutdown=20ms&state=" + t.TempDir() + "/state",
		"with events in excess": "sim://contract?shutdown=20ms&doubleEvent=0.5&seed=1",
	} {
		t.Run(name, func(t *testing.T) { contract.Run(t, harness(t, uri)) })
	}
}

// harness is a host of a world of its own.
func harness(t *testing.T, uri string) contract.Harness {
	t.Helper()

	world := sim.NewWorld()
	host := world.Host("contract")

	t.Cleanup(func() {
		require.Empty(t, world.Violations())
		require.NoError(t, world.Close())
	})

	openAs := func(t *testing.T, gateway string) hypervisor.Driver {
		t.Helper()

		d, err := sim.NewOpener(world)(context.Background(), uri, gateway)
		require.NoError(t, err)

		return d
	}

	return contract.Harness{
		Gateway: "contract",
		Open:    func(t *testing.T) hypervisor.Driver { return openAs(t, "contract") },
		OpenAs:  openAs,
		Capabilities: contract.Capabilities{
			Networks: true, DHCP: true, Volumes: true, Images: true, Pause: true, Shutdown: true, HotPlug: true, EventsOrdered: true, Console: "Connected to domain", Patience: 5 * time.Second,
		},
		Behind: contract.Behind{
			AddFile: func(t *testing.T, content []byte) string {
				t.Helper()
				host.AddFile("/srv/images/golden.img", sim.File{Content: content})

				return "/srv/images/golden.img"
			},
			Define: func(t *testing.T, name, uuid string) {
				t.Helper()
				require.NoError(t, host.AddDomain(hypervisor.Domain{
					Name: name, UUID: uuid, Spec: hypervisor.DomainSpec{CPUs: 1, Memory: 64 * resources.MiB},
				}))
			},
			Start:    func(t *testing.T, uuid string) { t.Helper(); require.True(t, host.Start(uuid)) },
			Destroy:  func(t *testing.T, uuid string) { t.Helper(); require.True(t, host.Destroy(uuid)) },
			Undefine: func(t *testing.T, uuid string) { t.Helper(); require.True(t, host.Undefine(uuid)) },
			SetMemory: func(t *testing.T, uuid string, m resources.Size) {
				t.Helper()
				require.True(t, host.SetMemory(uuid, m))
			},
			AddDisk: func(t *testing.T, uuid, path string) { t.Helper(); require.True(t, host.AddDisk(uuid, path)) },
			DefineNetwork: func(t *testing.T, name string) {
				t.Helper()
				require.NoError(t, host.AddNetwork(hypervisor.Network{Name: name, UUID: uuid.NewString(), Active: true}))
			},
			RemoveNetwork: func(t *testing.T, name string) { t.Helper(); require.True(t, host.DropNetwork(name)) },
			NetworkStarts: func(t *testing.T, name string) int { t.Helper(); return host.NetworkStarts(name) },
			Disconnect:    func(*testing.T) { host.DropConnections() },
		},
	}
}
