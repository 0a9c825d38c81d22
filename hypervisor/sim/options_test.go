package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestURI(t *testing.T) {
	for uri, message := range map[string]string{
		"sim://":                  "a simulated host is sim://NAME",
		"sim:///a":                "a simulated host is sim://NAME",
		"sim://a/b":               "a simulated host is sim://NAME",
		"sim://root@a":            "a simulated host is sim://NAME",
		"test://a":                "a simulated host is sim://NAME",
		"sim://a?boots=2s":        "parameter boots",
		"sim://a?boot=fast":       "is not a duration",
		"sim://a?boot=-2s":        "is negative",
		"sim://a?cpus=many":       "parameter cpus",
		"sim://a?memory=1XB":      "unknown unit",
		"sim://a?hang=2":          "not between 0 and 1",
		"sim://a?boot=1s&boot=2s": "is given 2 times",
		"sim://a?%zz":             "error reading",
	} {
		t.Run("refuses "+uri, func(t *testing.T) {
			_, err := sim.NewOpener(sim.NewWorld())(t.Context(), uri, "home")
			require.ErrorIs(t, err, hypervisor.ErrInvalid)
			require.ErrorContains(t, err, message)
		})
	}

	t.Run("sets the capacity", func(t *testing.T) {
		info, err := open(t, sim.NewWorld(), "sim://a?cpus=8&memory=16GiB&disk=1TiB").Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, resources.Capacity{CPUs: 8, Memory: 16 * resources.GiB, Disk: resources.TiB}, info.Capacity)
	})

	t.Run("alone gives a large host", func(t *testing.T) {
		info, err := open(t, sim.NewWorld(), "sim://a").Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, resources.Capacity{CPUs: 1000, Memory: 4 * resources.TiB, Disk: 64 * resources.TiB}, info.Capacity)
	})

	t.Run("of the process's world finds the same host again", func(t *testing.T) {
		first, err := sim.Open(t.Context(), "sim://options-test", "home")
		require.NoError(t, err)

		uuid := running(t, first, specOf("web"))
		require.NoError(t, first.Close())

		second, err := sim.Open(t.Context(), "sim://options-test", "home")
		require.NoError(t, err)

		_, err = second.Domain(t.Context(), uuid)
		require.NoError(t, err)
		require.Len(t, sim.Default().Domains(uuid), 1)
		require.NoError(t, second.Close())
	})
}
