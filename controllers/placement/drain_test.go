package placement_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/placement"
	"gateway/resources"
)

// reader reads a state as controllers do.
type reader struct{ state.State }

func (r reader) GetUncached(ctx context.Context, ptr resource.Pointer, opts ...state.GetOption) (resource.Resource, error) {
	return r.Get(ctx, ptr, opts...)
}

func (r reader) ListUncached(ctx context.Context, kind resource.Kind, opts ...state.ListOption) (resource.List, error) {
	return r.List(ctx, kind, opts...)
}

// file gives a VM a disk that is a file.
func file(path string) func(*resources.VMConfig) {
	return func(v *resources.VMConfig) {
		v.TypedSpec().Disks = append(v.TypedSpec().Disks, resources.Disk{Name: fmt.Sprintf("d%d", len(v.TypedSpec().Disks)), Path: path})
	}
}

func shares(dir string) func(*resources.Host) {
	return func(h *resources.Host) { h.TypedSpec().SharedPaths = []string{dir} }
}

func draining(g *chaintest.Rig, host string, drain bool) {
	chaintest.Edit(g, resources.NewHost(host), func(h *resources.Host) { h.TypedSpec().Drain = drain })
	g.Settle()
}

func TestAVMMovesWithDisksThatBothHostsHave(t *testing.T) {
	for name, test := range map[string]struct {
		vm      *resources.VMConfig
		host    string
		message string
	}{
		"a file in a directory that both share": {vm: vm("v", 1, resources.GiB, file("/srv/vms/v.qcow2")), host: "b"},
		"a file beside it": {
			vm: vm("v", 1, resources.GiB, file("/srv/vms/v.qcow2"), file("/srv/vms-of-a/v.qcow2")), host: "a",
			message: "stays on host a, which is being drained: its disk /srv/vms-of-a/v.qcow2 is there, in no directory that hosts share",
		},
		"a volume": {
			vm: vm("v", 1, resources.GiB, file("/srv/vms/v.qcow2"), disks), host: "a",
			message: "stays on host a, which is being drained: its disks are there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				g.AddHost("a", capacity(8, 64*resources.GiB), shares("/srv/vms"))
				g.AddHost("c", capacity(8, 32*resources.GiB))
				g.AddHost("b", capacity(8, 16*resources.GiB), shares("/srv/vms"))
				g.Create(test.vm.DeepCopy())
				g.Settle()
				require.Equal(t, "a", where(g, "v").Host)

				draining(g, "a", true)
				require.Equal(t, test.host, where(g, "v").Host, "host c has more room, and not the file")
				require.Equal(t, test.message, where(g, "v").Message)
			})
		})
	}
}

func TestAVMIsNotPlacedWhereASharedFileIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.AddHost("b", capacity(1, 16*resources.GiB), shares("/srv/vms"))
		g.Create(vm("v", 2, resources.GiB, file("/srv/vms/v.qcow2")))
		g.Settle()
		require.Equal(t, []resources.HostRefusal{
			{Host: "a", Reason: "does not have /srv/vms/v.qcow2, which is in a directory that other hosts share"},
			{Host: "b", Reason: "1 of 1 CPUs free, 2 needed"},
		}, where(g, "v").Hosts)

		chaintest.Edit(g, resources.NewHost("a"), shares("/srv/vms"))
		g.Settle()
		require.Equal(t, "a", where(g, "v").Host)
	})
}

func TestADrainThatIsCalledOffLeavesWhatHasNotBegunToMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.AddHost("b", capacity(1, 16*resources.GiB))

		for i := range 3 {
			g.Create(vm(fmt.Sprintf("v-%d", i), 1, resources.GiB))
		}

		g.Settle()
		another(g, "v-0", true)
		another(g, "v-1", true)
		another(g, "v-2", true)
		draining(g, "a", true)

		moving := ""

		for _, p := range chaintest.List(g, resources.NewVMPlacement("")) {
			if p.Metadata().Phase() == resource.PhaseTearingDown {
				require.Empty(t, moving, "host b has room for one")
				moving = p.Metadata().ID()
			}
		}

		draining(g, "a", false)
		another(g, moving, false)
		g.Pass(time.Hour)

		for i := range 3 {
			name := fmt.Sprintf("v-%d", i)
			want := "a"

			if name == moving {
				want = "b"
			}

			require.Equal(t, want, where(g, name).Host)
			require.Equal(t, resources.ReasonPlaced, where(g, name).Reason)
		}
	})
}

func TestTheForecastOfADrainIsWhatTheDrainDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(8, 64*resources.GiB))
		g.AddHost("b", capacity(3, 8*resources.GiB))
		g.Create(vm("disk", 1, resources.GiB, disks))
		g.Create(vm("pinned", 1, resources.GiB, rules(resources.Placement{Host: "a"})))
		g.Create(vm("v-1", 2, resources.GiB))
		g.Create(vm("v-2", 2, resources.GiB))
		g.Settle()

		forecast, err := placement.Drain(t.Context(), reader{g.State()}, "a")
		require.NoError(t, err)
		require.Equal(t, []placement.Forecast{
			{VM: "disk", Obstacle: "its disks are there"},
			{VM: "pinned", Obstacle: "it is pinned to the host"},
			{VM: "v-1", To: "b"},
			{VM: "v-2", Obstacle: "host b: 1 of 3 CPUs free, 2 needed"},
		}, forecast)

		draining(g, "a", true)

		moved := 0

		for _, name := range []string{"disk", "pinned", "v-1", "v-2"} {
			if where(g, name).Host == "b" {
				moved++
			}
		}

		require.Equal(t, 1, moved)
		require.Equal(t, "a", where(g, "disk").Host)
		require.Equal(t, "a", where(g, "pinned").Host)
	})
}

// withDisk returns the capacity of a host with a disk.
func withDisk(c resources.Capacity, disk resources.Size) resources.Capacity {
	c.Disk = disk

	return c
}

func TestDiskIsReservedWithItsOvercommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", withDisk(capacity(100, 64*resources.GiB), 2*resources.GiB), func(h *resources.Host) { h.TypedSpec().Overcommit.Disk = 1.5 })

		for i := range 4 {
			g.Create(vm(fmt.Sprintf("v-%d", i), 1, resources.GiB, disks))
			g.Settle()
		}

		require.Equal(t, "a", where(g, "v-2").Host)
		require.Equal(t, resources.GiB, where(g, "v-2").Reserved.Disk)
		require.Equal(t, "host a: 0 of 3GiB disk free, 1GiB needed", where(g, "v-3").Message)

		g.Delete(resources.NewVMConfig("v-0").Metadata())
		g.Settle()
		require.Equal(t, "a", where(g, "v-3").Host)
	})
}

// Whatever comes, goes, grows and moves at the same time: at no moment is more reserved on a host than it has.
func TestReservationsNeverRace(t *testing.T) {
	const rounds, vms, cpus = 40, 24, 16

	synctest.Test(t, func(t *testing.T) {
		g := rig(t)

		for _, host := range []string{"a", "b", "c"} {
			g.AddHost(host, capacity(cpus, 64*resources.GiB))
		}

		events := make(chan state.Event)
		require.NoError(t, g.State().WatchKind(t.Context(), resources.NewVMPlacement("").Metadata(), events))

		most := map[string]int{}
		watched := make(chan struct{})

		go func() {
			defer close(watched)

			reserved := map[string]resources.VMPlacementSpec{}

			for {
				select {
				case <-t.Context().Done():
					return
				case e := <-events:
					if p, ok := e.Resource.(*resources.VMPlacement); ok && e.Type == state.Destroyed {
						delete(reserved, p.Metadata().ID())
					} else if ok {
						reserved[p.Metadata().ID()] = *p.TypedSpec()
					}
				}

				used := map[string]int{}
				for _, p := range reserved {
					used[p.Host] += p.Reserved.CPUs
				}

				for host, n := range used {
					most[host] = max(most[host], n)
				}
			}
		}()

		for round := range rounds {
			for i := range vms {
				name := fmt.Sprintf("v-%d", i)

				switch known := chaintest.Get(g, resources.NewVMConfig(name)); {
				case known == nil:
					g.Create(vm(name, 1+(round+i)%5, resources.GiB))
				case (round+i)%3 == 0:
					g.Delete(known.Metadata())
				case (round+i)%3 == 1 && known.Metadata().Phase() == resource.PhaseRunning:
					chaintest.Edit(g, known, func(v *resources.VMConfig) { v.TypedSpec().CPUs = 1 + (round*i)%6 })
				}
			}

			host := string(rune('a' + round%3))
			chaintest.Edit(g, resources.NewHost(host), func(h *resources.Host) { h.TypedSpec().Drain = !h.TypedSpec().Drain })

			if round%2 == 1 {
				g.Settle() // every two rounds overlap
			}
		}

		g.Settle()

		busiest := 0

		for _, host := range []string{"a", "b", "c"} {
			require.LessOrEqual(t, most[host], cpus, "host %s", host)
			busiest = max(busiest, most[host])
		}

		require.GreaterOrEqual(t, busiest, cpus-1, "the hosts were never full")
	})
}
