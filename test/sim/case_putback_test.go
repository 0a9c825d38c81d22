package sim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// A host's or a network's file is moved away by mistake while VMs are on it, and back: it is in force again at once, and the VMs notice nothing.
func TestADocumentThatVMsNeedIsPutBack(t *testing.T) {
	for name, file := range map[string]string{"a host": "host.yaml", "a network": "lan.yaml"} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.declare("host.yaml", hostDocument("a", ""))
				s.declare("lan.yaml", lanDocument)
				s.declare("web.yaml", vmDocument("web", onLan))
				require.Equal(t, resources.StateRunning, s.status("web").State)

				aside := filepath.Join(t.TempDir(), file)
				changes := s.sim.Changes()

				require.NoError(t, os.Rename(filepath.Join(s.root, file), aside))
				s.pass(10 * time.Minute)
				s.declare("late.yaml", vmDocument("late", onLan))
				require.NotEqual(t, resources.StateRunning, s.status("late").State, "nothing new uses what goes")
				require.Equal(t, resources.StateRunning, s.status("web").State)
				s.stop()
				s.pass(time.Minute)

				require.NoError(t, os.Rename(aside, filepath.Join(s.root, file)))
				s.pass(10 * time.Second)
				require.False(t, resources.IsLeaving(found(s, resources.NewHost("a")).Metadata()))
				require.False(t, resources.IsLeaving(found(s, resources.NewNetwork("lan")).Metadata()))
				require.Equal(t, resources.StateRunning, s.status("late").State)
				require.Equal(t, changes["StartDomain"]+1, s.sim.Changes()["StartDomain"], "but for the new VM")
				require.Equal(t, changes["UndefineDomain"], s.sim.Changes()["UndefineDomain"])

				// Taken away for good, it goes with the last VM.
				require.NoError(t, os.Rename(filepath.Join(s.root, file), aside))
				s.pass(time.Minute)
				s.remove("late.yaml")
				s.remove("web.yaml")
				s.pass(time.Minute)

				if file == "host.yaml" {
					require.Nil(t, found(s, resources.NewHost("a")))
				} else {
					require.Nil(t, found(s, resources.NewNetwork("lan")))
				}
			})
		})
	}
}
