package network_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/resources"
)

func TestCaseV42AddressThatBecameFreeIsNotTheNextOnesWhileALeaseMayLast(t *testing.T) {
	address := func(g *chaintest.Rig, name string) string { return config(g, name).Interfaces[0].Address }

	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		lan(g, "lan", 3)
		g.Create(vm("keeper", resources.Interface{Network: "lan", Address: "10.7.0.9"}))
		g.Create(vm("old", on("lan")))
		g.Settle()
		require.Equal(t, "10.7.0.100", address(g, "old"))

		g.Delete(resources.NewVMConfig("old").Metadata())
		g.Settle()
		require.Nil(t, chaintest.Get(g, resources.NewVMConfig("old")))

		// Another VM passes it over; the same one, with the same MAC, has it again.
		g.Create(vm("new", on("lan")))
		g.Settle()
		require.Equal(t, "10.7.0.101", address(g, "new"))
		g.Create(vm("old", on("lan")))
		g.Settle()
		require.Equal(t, "10.7.0.100", address(g, "old"))
		g.Delete(resources.NewVMConfig("old").Metadata())
		g.Settle()

		// It is given away where nothing else is free.
		for i := range 2 {
			g.Create(vm(fmt.Sprintf("more-%d", i), on("lan")))
			g.Settle()
		}

		require.Equal(t, "10.7.0.102", address(g, "more-0"))
		require.Equal(t, "10.7.0.100", address(g, "more-1"))

		// When no lease of it can be left, it is an address as any other.
		g.Delete(resources.NewVMConfig("new").Metadata())
		g.Delete(resources.NewVMConfig("more-1").Metadata())
		g.Pass(3 * time.Minute)
		g.Create(vm("late", on("lan")))
		g.Settle()
		require.Equal(t, "10.7.0.100", address(g, "late"))
	})
}
