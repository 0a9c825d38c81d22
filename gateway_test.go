package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"gateway"
	"gateway/config"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// start runs a gateway on a documents directory until the test ends.
func start(t *testing.T, documents map[string]string) (g *gateway.Gateway, dir string) {
	t.Helper()

	dir = t.TempDir()
	cfg := config.Default()
	cfg.Documents = []string{filepath.Join(dir, "documents.d")}
	cfg.DataDir = filepath.Join(dir, "data")
	cfg.HTTP.Listen, cfg.NATS.Embedded.Listen = "127.0.0.1:0", "127.0.0.1:0"

	require.NoError(t, os.Mkdir(cfg.Documents[0], 0o755))

	for name, text := range documents {
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Documents[0], name), []byte(text), 0o600))
	}

	g, err := gateway.New(cfg, gateway.WithLogger(zaptest.NewLogger(t)))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- g.Run(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	return g, cfg.Documents[0]
}

const host = `apiVersion: gateway/v1alpha1
kind: Host
metadata: {name: a}
spec: {uri: "sim://NAME"}
---
apiVersion: gateway/v1alpha1
kind: Network
metadata: {name: lan}
spec: {mode: isolated, subnet: 10.7.0.0/24}
`

const web = `apiVersion: gateway/v1alpha1
kind: VM
metadata: {name: web-1}
spec: {memory: 128MiB, interfaces: [{network: lan}], shutdown: {grace: 1s}}
`

// eventually waits for what the whole gateway does: seconds under the race detector, milliseconds otherwise.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 10*time.Millisecond, what)
}

// simHost replaces the host's name, so that tests do not share the process's simulated world.
func simHost(t *testing.T) string { return strings.ReplaceAll(host, "NAME", strings.ToLower(t.Name())) }

func stateOf(t *testing.T, g *gateway.Gateway, name string) string {
	t.Helper()

	r, err := g.State().Get(t.Context(), resources.NewVMStatus(name).Metadata())
	if err != nil {
		return ""
	}

	return r.(*resources.VMStatus).TypedSpec().State
}

func TestAVMComesUpWithItsFileAndGoesWithItLeavingNothing(t *testing.T) {
	g, dir := start(t, map[string]string{"host.yaml": simHost(t)})
	path := filepath.Join(dir, "web.yaml")

	require.NoError(t, os.WriteFile(path, []byte(web), 0o600))
	eventually(t, "the VM runs", func() bool { return stateOf(t, g, "web-1") == resources.StateRunning })

	driver, err := sim.Open(t.Context(), "sim://"+strings.ToLower(t.Name()), g.ID())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, driver.Close()) })

	moved := filepath.Join(dir, "moved.yaml")
	before := sim.Default().Changes()
	require.NoError(t, os.Rename(path, moved))
	eventually(t, "the VM belongs to the other file", func() bool {
		r, err := g.State().Get(t.Context(), resources.NewVMConfig("web-1").Metadata())

		return err == nil && resources.OriginOf(r.Metadata()).Name == moved
	})
	require.Equal(t, before, sim.Default().Changes(), "moving a document changes nothing on the hypervisor")

	require.NoError(t, os.Remove(moved))
	eventually(t, "nothing of the VM is left in the state", func() bool {
		for _, kind := range []string{"VM", "VMStatus", "VMPlacement", "NetworkConfig", "Tombstone"} {
			k, _ := resources.KindByName(kind)

			list, err := g.State().List(t.Context(), k.List())
			if err != nil || len(list.Items) > 0 {
				return false
			}
		}

		return true
	})

	domains, err := driver.Domains(t.Context())
	require.NoError(t, err)
	require.Empty(t, domains)

	networks, err := driver.Networks(t.Context())
	require.NoError(t, err)
	require.Empty(t, networks)
	require.Empty(t, sim.Default().Violations())
}

func TestADirectoryThatIsEmptiedWaitsForAConfirmation(t *testing.T) {
	g, dir := start(t, map[string]string{"all.yaml": simHost(t) + "---\n" + web})
	eventually(t, "the VM runs", func() bool { return stateOf(t, g, "web-1") == resources.StateRunning })

	require.NoError(t, os.Remove(filepath.Join(dir, "all.yaml")))
	eventually(t, "the deletion is held back", func() bool {
		_, err := g.State().Get(t.Context(), resources.NewDeletionGuard(resources.FileID(dir)).Metadata())

		return err == nil
	})
	require.Equal(t, resources.StateRunning, stateOf(t, g, "web-1"))
}
