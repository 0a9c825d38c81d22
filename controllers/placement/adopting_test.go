package placement_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/resources"
)

// twoRacks has host a, which everybody prefers, and host b, which is almost full.
func twoRacks(g *chaintest.Rig) {
	rack := func(name string) func(*resources.Host) {
		return func(h *resources.Host) { h.Metadata().Labels().Set("rack", name) }
	}

	g.AddHost("a", capacity(64, 64*resources.GiB), rack("a"))
	g.AddHost("b", capacity(1, resources.GiB), rack("b"))
}

// A VM whose domain carries an id that is not ours may be running there, from before a data directory was lost: placed elsewhere
// it would be there twice.
func TestAVMIsPlacedWhereADomainOfItsNameCarriesAnotherMark(t *testing.T) {
	for name, test := range map[string]struct {
		rules resources.Placement
		host  string
	}{
		"wherever it would be otherwise": {resources.Placement{}, "b"},
		"within its selector":            {resources.Placement{Selector: map[string]string{"rack": "b"}}, "b"},
		"but not against its pin":        {resources.Placement{Host: "a"}, "a"},
		"nor against its selector":       {resources.Placement{Selector: map[string]string{"rack": "a"}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := rig(t)
				theirs := own("v")
				theirs.Gateway = "lost"
				require.NoError(t, g.World.Host("b").AddDomain(theirs))
				twoRacks(g)

				g.Create(vm("v", 4, resources.GiB, rules(test.rules)))
				g.Pass(5 * time.Second)
				require.Equal(t, test.host, where(g, "v").Host)
			})
		})
	}
}

func TestAnotherGatewaysVMOfTheSameNameKeepsNothingFromOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		theirs := own("v")
		theirs.Gateway, theirs.Name = "other", "v-of-another"
		require.NoError(t, g.World.Host("b").AddDomain(theirs))
		twoRacks(g)

		g.Create(vm("v", 4, resources.GiB))
		g.Pass(5 * time.Second)
		require.Equal(t, "a", where(g, "v").Host)
	})
}

// Its domain is there already, and takes no more room than it has.
func TestAnAdoptedVMIsPlacedWhereItsDomainIsWhateverFits(t *testing.T) {
	for _, gateway := range []string{"", "lost"} {
		synctest.Test(t, func(t *testing.T) {
			g := rig(t)
			foreign := own("Old Name")
			foreign.Gateway, foreign.VM = gateway, ""
			require.NoError(t, g.World.Host("b").AddDomain(foreign))
			twoRacks(g)

			adopts := func(v *resources.VMConfig) {
				v.TypedSpec().Adopt = &resources.Adopt{Domain: foreign.Name, UUID: foreign.UUID, Gateway: gateway}
			}

			g.Create(vm("v", 4, 2*resources.GiB, adopts))
			g.Pass(5 * time.Second)
			require.Equal(t, "b", where(g, "v").Host)

			g.Create(vm("pinned", 4, 2*resources.GiB, adopts, rules(resources.Placement{Host: "a"})))
			g.Pass(5 * time.Second)
			require.Equal(t, "a", where(g, "pinned").Host, "where its domain is not, it is placed as any other")
		})
	}
}

// Two other gateways have a VM of the name, each on another host: the choice does not depend on who answers first.
func TestOfSeveralDomainsWithAnotherMarkOneThatTakesTheVMIsChosen(t *testing.T) {
	for range 8 {
		synctest.Test(t, func(t *testing.T) {
			g := rig(t)

			for _, host := range []string{"a", "b"} {
				theirs := own("v")
				theirs.Gateway = "other-" + host
				require.NoError(t, g.World.Host(host).AddDomain(theirs))
			}

			g.AddHost("a", capacity(1, resources.GiB))
			g.AddHost("b", capacity(64, 64*resources.GiB))
			g.Create(vm("v", 4, resources.GiB))
			g.Pass(5 * time.Second)
			require.Equal(t, "b", where(g, "v").Host)
		})
	}
}
