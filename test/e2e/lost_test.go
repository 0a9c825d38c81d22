package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCaseV64LostLibvirtd loses the connection to hosts and gets it back. Meanwhile the VMs are unknown; afterwards they
// are what they were, and nobody touched them.
func TestCaseV64LostLibvirtd(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	t.Run("the daemon of QEMU is killed and started again", func(t *testing.T) {
		h := newHypervisor(t)
		g := newGateway(t, "resync: 5m")
		names := []string{"vm-0", "vm-1", "vm-2", "vm-3", "vm-4"}

		g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.75.0.0/24}")))
		g.write("vms.yaml", documents(document("VM", "vm-0", vmOn("lan")), document("VM", "vm-1", vmOn("lan")),
			document("VM", "vm-2", vmSpec), document("VM", "vm-3", vmSpec), document("VM", "vm-4", vmSpec)))
		g.start()
		g.running(names...)

		before := map[string]identity{}
		for _, name := range names {
			before[name] = h.identity(name)
		}

		lost(t, g, "qemu", len(names), 0, func() { require.NoError(t, h.Kill()) }, func() { h.restart(t) })

		for _, name := range names {
			require.Equal(t, before[name], h.identity(name))
		}
	})

	t.Run("a daemon with 500 domains hangs and goes on", func(t *testing.T) {
		h := newHypervisor(t)
		g := newGateway(t, "resync: 5m")

		// The test driver forgets everything with its last connection: somebody else keeps one.
		h.watchURI(t, h.TestURI())

		texts := make([]string, 500)
		for i := range texts {
			texts[i] = document("VM", fmt.Sprintf("vm-%d", i), "{memory: 64MiB}")
		}

		g.write("host.yaml", document("Host", "driver", fmt.Sprintf("{uri: %q, capacity: {cpus: 1000, memory: 1TiB}}", h.TestURI())))
		g.write("vms.yaml", documents(texts...))
		g.start()
		g.all(t, "driver", "running", len(texts))

		before, err := h.TestVirsh("list", "--all")
		require.NoError(t, err)

		lost(t, g, "driver", len(texts), hang, func() { require.NoError(t, h.Stop()) }, func() { require.NoError(t, h.Cont()) })

		after, err := h.TestVirsh("list", "--all")
		require.NoError(t, err)
		require.Equal(t, before, after, "the domains and their ids, which change with each start")
		require.Equal(t, len(texts), strings.Count(after, "vm-"))
	})
}

// hang is how long a daemon hangs: longer than it takes to find it.
const hang = 40 * time.Second

// lost takes the connection to a host away and gives it back: the VMs are unknown, and running again without a power
// action, although they are looked at meanwhile. It is away for at least a time.
func lost(t *testing.T, g *gateway, host string, vms int, least time.Duration, away, back func()) {
	t.Helper()

	modified := g.modified()
	begin := time.Now()

	away()
	g.cli("sync", "VM", "-l", "{}")
	t.Logf("unknown after %s", g.all(t, host, "unknown", vms))
	// A daemon that hangs is found by its silence, which is later.
	eventually(t, "the connection counts as lost", func() error {
		if n := g.metric("gateway_host_connected", fmt.Sprintf("host=%q", host)); n != 0 {
			return fmt.Errorf("it is %.0f", n)
		}

		return nil
	})
	g.cli("sync", "VM", "-l", "{}")

	pause(t, time.Until(begin.Add(least)))
	back()
	t.Logf("running again after %s", g.allWithin(t, stretched(5*time.Second), host, "running", vms))
	require.Equal(t, modified, g.modified(), "calls that change something")
}

// all waits until the metrics have so many VMs of a host in a state.
func (g *gateway) all(t *testing.T, host, state string, vms int) time.Duration {
	t.Helper()

	return g.allWithin(t, patience, host, state, vms)
}

// allWithin does so for a time.
func (g *gateway) allWithin(t *testing.T, limit time.Duration, host, state string, vms int) time.Duration {
	t.Helper()

	return within(t, limit, fmt.Sprintf("%d VMs on host %s are %s", vms, host, state), func() error {
		if n := g.metric("gateway_vms", fmt.Sprintf("host=%q", host), fmt.Sprintf("state=%q", state)); int(n) != vms {
			return fmt.Errorf("%.0f of %d", n, vms)
		}

		return nil
	})
}
