package placement_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/resources"
)

// restored is the placement of a VM as a restore leaves it.
func restored(name, former string) *resources.VMPlacement {
	p := resources.NewVMPlacement(name)
	*p.TypedSpec() = resources.VMPlacementSpec{Former: former, Reason: resources.ReasonPending}

	return p
}

func domainOf(vm string) hypervisor.Domain {
	return hypervisor.Domain{
		Name: vm, UUID: hypervisor.DomainUUID(chaintest.GatewayID, vm), Gateway: chaintest.GatewayID, VM: vm, State: resources.StateRunning,
		Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB},
	}
}

// restore writes what a restored store has of a VM, before the controller looks.
func restore(g *chaintest.Rig, name, former string) {
	g.T.Helper()

	require.NoError(g.T, g.State().Create(g.T.Context(), restored(name, former), state.WithCreateOwner(resources.ControllerPlacement)))
	g.Create(vm(name, 1, resources.GiB))
	g.Settle()
}

func TestAfterARestoreAVMIsWhereItsDomainIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(4, 8*resources.GiB))
		g.AddHost("b", capacity(4, 8*resources.GiB))
		require.NoError(t, g.World.Host("b").AddDomain(domainOf("moved")))
		require.NoError(t, g.World.Host("a").AddDomain(domainOf("stayed")))
		restore(g, "moved", "a")
		restore(g, "stayed", "a")

		require.Equal(t, "b", where(g, "moved").Host)
		require.Equal(t, "a", where(g, "moved").Former, "what the network has of it is known by this")
		require.Equal(t, "a", where(g, "stayed").Host)
		require.Empty(t, where(g, "stayed").Former)
	})
}

func TestAfterARestoreAVMThatIsNowhereIsMadeAnewLaterAndWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(4, 8*resources.GiB))
		g.AddHost("b", capacity(4, 16*resources.GiB))
		restore(g, "v", "a")

		require.Empty(t, where(g, "v").Host)
		require.Equal(t, "a", where(g, "v").Former)
		require.Contains(t, where(g, "v").Message, "no host has it after a restore")

		g.Pass(31 * time.Second)
		require.Equal(t, "a", where(g, "v").Host)
		require.Empty(t, where(g, "v").Former)
	})
}

func TestAfterARestoreNothingIsPlacedBeforeEveryHostHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(4, 8*resources.GiB))
		g.AddHost("b", capacity(4, 8*resources.GiB))
		g.Disconnect("b")
		require.NoError(t, g.World.Host("b").AddDomain(domainOf("v")))
		restore(g, "v", "a")
		g.Pass(10 * time.Minute)
		require.Empty(t, where(g, "v").Host)
		require.Equal(t, resources.ReasonHostUnreachable, where(g, "v").Reason)
		require.Equal(t, "a", where(g, "v").Former)

		g.Connect("b", resources.Capacity{})
		g.Settle()
		require.Equal(t, "b", where(g, "v").Host)
	})
}

func TestAVMThatIsTakenAwayAfterARestoreIsTakenAwayWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", capacity(4, 8*resources.GiB))
		g.AddHost("b", capacity(4, 8*resources.GiB))
		g.Disconnect("b")
		require.NoError(t, g.World.Host("b").AddDomain(domainOf("v")))
		restore(g, "v", "a")
		another(g, "v", true)

		_, err := g.State().Teardown(t.Context(), resources.NewVMConfig("v").Metadata())
		require.NoError(t, err)
		g.Settle()
		require.Contains(t, where(g, "v").Message, "host b has to be asked first")

		g.Connect("b", resources.Capacity{})
		g.Pass(2 * time.Second)

		p := chaintest.Get(g, resources.NewVMPlacement("v"))
		require.Equal(t, resource.PhaseTearingDown, p.Metadata().Phase())
		require.Equal(t, "b", p.TypedSpec().Host)
	})
}
