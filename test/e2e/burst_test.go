package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFiveThousand drops 5,000 documents at once, which is 50 times what a watch of the runtime has by default.
func TestFiveThousand(t *testing.T) {
	const vms = 5000

	g := newGateway(t, "")
	g.write("host.yaml", document("Host", "a", `{uri: "sim://a", capacity: {cpus: 10000, memory: 16TiB}}`))
	g.start()

	begin := time.Now()

	// A file each, as a tool writes them: not in one step.
	for i := range vms {
		name := fmt.Sprintf("vm-%d", i)
		text := document("VM", name, "{memory: 64MiB}")
		require.NoError(t, os.WriteFile(filepath.Join(g.documents(), name+".yaml"), []byte(text), 0o600))
	}

	wrote := time.Since(begin)
	// Minutes on two cores that others use, too: it takes 12 s of CPU.
	g.allWithin(t, 4*time.Minute, "a", "running", vms)

	converged := time.Since(begin)
	require.Zero(t, g.metric("gateway_runtime_rebuilds_total"), "the runtime failed under the burst")

	objects, err := g.list("VM")
	require.NoError(t, err)
	require.Len(t, objects, vms)

	status, err := os.Open(fmt.Sprintf("/proc/%d/status", g.pid()))
	require.NoError(t, err)

	defer status.Close()

	resident, err := residentMemory(status)
	require.NoError(t, err)
	t.Logf("%d documents were written in %s and running after %s; resident memory %d MiB",
		vms, wrote.Round(time.Millisecond), converged.Round(time.Millisecond), resident>>20)

	g.stop()
}
