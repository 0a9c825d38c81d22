package network_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/network"
	"gateway/controllers/placement"
	vmcontroller "gateway/controllers/vm"
	"gateway/hypervisor"
	"gateway/resources"
)

// TestChurn creates, moves, edits and deletes VMs at random, while hosts come and go and the runtime is built again, and
// checks that what is left in the end is exactly what is declared, and nothing when nothing is.
func TestChurn(t *testing.T) {
	for name, last := range map[string]func(*chaintest.Rig) controller.QController{
		"with a stand-in for vm": func(g *chaintest.Rig) controller.QController {
			return &chaintest.FakeVM{Pool: g.Pool, Delay: 300 * time.Microsecond}
		},
		"with vm itself": func(g *chaintest.Rig) controller.QController {
			return vmcontroller.New(vmcontroller.Options{
				Pool: g.Pool, GatewayID: chaintest.GatewayID, Barrier: g.Store, Journal: g.Store.Journal(), Registry: prometheus.NewRegistry(),
			})
		},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { churn(t, last, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

const churnHosts, churnVMs, churnSteps = 3, 30, 700

func churn(t *testing.T, last func(*chaintest.Rig) controller.QController, dice *rand.Rand) {
	t.Helper()

	g := chaintest.New(t, func(g *chaintest.Rig) []controller.QController {
		return []controller.QController{
			placement.New(placement.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, Holders: []resource.Finalizer{resources.ControllerNetwork}}),
			network.New(network.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, Barrier: g.Store, Journal: g.Store.Journal()}),
			last(g),
		}
	})

	away := map[string]bool{}

	for i := range churnHosts {
		g.AddHost(hostName(i), resources.Capacity{CPUs: 12, Memory: resources.TiB})
	}

	lan(g, "lan", lanAddresses)

	dmz := resources.NewNetwork("dmz")
	dmz.TypedSpec().Subnet = "10.8.0.0/24"
	g.Create(dmz)

	for range churnSteps {
		step(g, dice, away)
		time.Sleep(time.Duration(dice.IntN(400)) * time.Microsecond)
	}

	for name := range away {
		if away[name] {
			g.Connect(name, resources.Capacity{})
		}
	}

	g.Pass(30 * time.Minute)
	requireConverged(g)

	removeAll(g)
	g.Pass(30 * time.Minute)
	requireNothingLeft(g)
}

func hostName(i int) string { return fmt.Sprintf("h-%d", i) }

// lanAddresses are fewer than the VMs that fit on the hosts ask for.
const lanAddresses = 20

// step does one thing that a person or a machine may do.
func step(g *chaintest.Rig, dice *rand.Rand, away map[string]bool) {
	g.T.Helper()

	var (
		ctx  = context.Background()
		name = fmt.Sprintf("v-%d", dice.IntN(churnVMs))
		ptr  = resources.NewVMConfig(name).Metadata()
		host = hostName(dice.IntN(churnHosts))
	)

	edit := func(change func(*resources.VMConfig)) {
		_, err := g.State().UpdateWithConflicts(ctx, ptr, func(r resource.Resource) error {
			if v, ok := r.(*resources.VMConfig); ok {
				change(v)
				resources.SetRevision(v.Metadata(), resources.RevisionOf(v.Metadata())+1)
			}

			return nil
		})
		if !state.IsNotFoundError(err) && !state.IsPhaseConflictError(err) {
			require.NoError(g.T, err)
		}
	}

	switch n := dice.IntN(100); {
	case n < 35:
		v := vm(name, on("lan"), on([]string{"lan", "dmz"}[dice.IntN(2)]))
		v.TypedSpec().CPUs = 1 + dice.IntN(3)

		if dice.IntN(2) == 0 {
			v.TypedSpec().Placement.Host = host
		}

		if err := g.State().Create(ctx, v); !state.IsConflictError(err) {
			require.NoError(g.T, err)
		}
	case n < 60:
		if _, err := g.State().Teardown(ctx, ptr); !state.IsNotFoundError(err) {
			require.NoError(g.T, err)
		}
	case n < 75:
		edit(func(v *resources.VMConfig) { v.TypedSpec().Placement.Host = host })
	case n < 82:
		edit(func(v *resources.VMConfig) { v.TypedSpec().CPUs = 1 + dice.IntN(3) })
	case n < 88:
		edit(func(v *resources.VMConfig) {
			v.TypedSpec().Interfaces = []resources.Interface{on([]string{"lan", "dmz"}[dice.IntN(2)])}
		})
	case n < 91:
		chaintest.Edit(g, resources.NewHost(host), func(h *resources.Host) { h.TypedSpec().Drain = !h.TypedSpec().Drain })
	case n < 95:
		if away[host] = !away[host]; away[host] {
			g.Disconnect(host)
		} else {
			g.Connect(host, resources.Capacity{})
		}
	case n < 97:
		g.Rebuild()
	}
}

// requireConverged checks that every VM is where its placement says, in as many places as that, and no host has more than
// it can take.
func requireConverged(g *chaintest.Rig) {
	g.T.Helper()
	require.Empty(g.T, g.World.Violations())

	var (
		cpus      = map[string]int{}
		addresses = map[string]string{}
		entries   = map[string]int{}
	)

	for _, v := range chaintest.List(g, resources.NewVMConfig("")) {
		name := v.Metadata().ID()
		require.Equal(g.T, resource.PhaseRunning, v.Metadata().Phase(), "%s", g.Left())

		p := chaintest.Get(g, resources.NewVMPlacement(name)).TypedSpec()
		c := config(g, name)
		domains := g.World.Domains(hypervisor.DomainUUID(chaintest.GatewayID, name))

		require.Equal(g.T, p.Host, c.Host, name)

		cpus[p.Host] += p.Reserved.CPUs

		if !c.Ready {
			require.Contains(g.T, []string{resources.ReasonPending, resources.ReasonAddressExhausted}, c.Reason, "%s: %+v", name, c)

			continue
		}

		require.Len(g.T, domains, 1, name)
		require.Equal(g.T, p.Host, domains[0].Host, name)

		for _, b := range c.Interfaces {
			require.Empty(g.T, addresses[b.Network+b.Address], "%s has the address of another", name)
			addresses[b.Network+b.Address] = name
			entries[c.Host+" "+b.Network]++
		}

		for _, b := range c.Retiring { // the running guest has it still, and its entry with it
			again := func(now resources.NetworkBinding) bool {
				return now.Network == b.Network && (now.MAC == b.MAC || now.Address == b.Address)
			}
			if !slices.ContainsFunc(c.Interfaces, again) {
				entries[c.Host+" "+b.Network]++
			}
		}
	}

	requireNoneForgotten(g, cpus)

	for i := range churnHosts {
		require.LessOrEqual(g.T, cpus[hostName(i)], 12)

		found := g.Networks(hostName(i))
		for network, hosts := range found {
			require.Len(g.T, hosts, entries[hostName(i)+" "+network], "entries of %s on %s", network, hostName(i))
		}
	}
}

// requireNoneForgotten checks that who waits has to: no host has room for a VM that is nowhere, and no address is free for
// one that has none. Nothing but events wakes them here: there is no resync.
func requireNoneForgotten(g *chaintest.Rig, cpus map[string]int) {
	g.T.Helper()

	given := 0

	for _, c := range chaintest.List(g, resources.NewNetworkConfig("")) {
		for _, b := range slices.Concat(c.TypedSpec().Interfaces, c.TypedSpec().Retiring) {
			if b.Network == "lan" {
				given++
			}
		}
	}

	for _, v := range chaintest.List(g, resources.NewVMConfig("")) {
		name := v.Metadata().ID()

		if config(g, name).Reason == resources.ReasonAddressExhausted {
			lans := 0

			for _, i := range v.TypedSpec().Interfaces {
				if i.Network == "lan" {
					lans++
				}
			}

			require.Greater(g.T, given+lans, lanAddresses, "there are addresses for %s", name)
		}

		if chaintest.Get(g, resources.NewVMPlacement(name)).TypedSpec().Host != "" {
			continue
		}

		for i := range churnHosts {
			host := chaintest.Get(g, resources.NewHost(hostName(i)))
			if host.TypedSpec().Drain || v.TypedSpec().Placement.Host != "" && v.TypedSpec().Placement.Host != hostName(i) {
				continue
			}

			require.Greater(g.T, cpus[hostName(i)]+v.TypedSpec().CPUs, 12, "%s has room for %s: %+v", hostName(i), name, chaintest.Get(g, resources.NewVMPlacement(name)).TypedSpec())
		}
	}
}
