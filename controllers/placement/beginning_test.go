package placement_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/placement"
	"gateway/resources"
)

// beginning runs placement as a process whose documents directories were not read yet.
func beginning(t *testing.T) (*chaintest.Rig, chan struct{}) {
	t.Helper()

	known := make(chan struct{})

	return chaintest.New(t, func(g *chaintest.Rig) []controller.QController {
		return []controller.QController{placement.New(placement.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID, HostsKnown: known})}
	}), known
}

// The data directory was lost, and the document of the host that has the VM's domain is read after the VM's.
func TestAVMIsNotPlacedBeforeAllHostsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, known := beginning(t)
		theirs := own("v")
		theirs.Gateway = "lost"
		require.NoError(t, g.World.Host("b").AddDomain(theirs))

		g.AddHost("a", capacity(64, 64*resources.GiB))
		g.Create(vm("v", 4, resources.GiB))
		g.Pass(5 * time.Second)
		require.Empty(t, where(g, "v").Host)

		g.AddHost("b", capacity(4, 4*resources.GiB))
		close(known)
		g.Pass(5 * time.Second)
		require.Equal(t, "b", where(g, "v").Host)
	})
}

func TestHostsThatNobodyEverTellsOfAreNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := beginning(t)
		g.AddHost("a", capacity(64, 64*resources.GiB))
		g.Create(vm("v", 4, resources.GiB))
		g.Pass(29 * time.Second)
		require.Empty(t, where(g, "v").Host)

		g.Pass(2 * time.Second)
		require.Equal(t, "a", where(g, "v").Host)

		g.Create(vm("w", 4, resources.GiB))
		g.Pass(time.Second)
		require.Equal(t, "a", where(g, "w").Host, "and only once")
	})
}
