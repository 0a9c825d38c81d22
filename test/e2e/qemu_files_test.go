package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// saves are the ways in which programs save a file.
var saves = []struct {
	name string
	how  func(t *testing.T, path, text string)
}{
	{"vim moves the file away and writes a new one", saveAsVim},
	{"VS Code empties the file and writes it in pieces", saveAsVSCode},
	{"sed writes a temporary file and renames it", saveAsSed},
	{"rsync writes a hidden file and renames it", saveAsRsync},
	{"git removes the file and writes a new one", saveAsGit},
	{"scp writes over the file", saveAsScp},
}

// editorsSave saves a VM's document in the ways that programs do. Each is one new revision of the same object: never half a
// document, never a VM that is gone for a moment.
func editorsSave(t *testing.T, g *gateway, h *hypervisor) {
	path := filepath.Join(g.documents(), "web-1.yaml")
	base := document("VM", "web-1", vmOn("lan"))
	text := func(n int) string {
		return strings.Replace(base, "spec: {", fmt.Sprintf("spec: {description: version %d, ", n), 1)
	}

	before := h.identity("web-1")
	o, err := g.get("VM", "web-1")
	require.NoError(t, err)

	uid, revision := o.Metadata.UID, o.Metadata.Revision
	seen := h.watch(t)

	for i, save := range saves {
		t.Run(save.name, func(t *testing.T) {
			save.how(t, path, text(i+1))
			revision++

			eventually(t, "the update is in force", func() error {
				o, err := g.get("VM", "web-1")
				if err != nil {
					t.Fatalf("the VM was gone: %s", err)
				}

				require.Equal(t, uid, o.Metadata.UID)

				if o.Metadata.Revision != revision || o.Spec["description"] != fmt.Sprintf("version %d", i+1) || o.Status.ObservedRevision != revision {
					return fmt.Errorf("revision %d, wanted %d: %v", o.Metadata.Revision, revision, o.Spec["description"])
				}

				return nil
			})
		})
	}

	t.Run("the same bytes again are no update", func(t *testing.T) {
		saveAsScp(t, path, text(6))
		// What is written after it, in another file, is in force: so the first was looked at, too.
		g.write("after.yaml", document("VM", "after", "{power: stopped, shutdown: {grace: 1s}}"))
		g.cli("wait", "VM", "after", "--for", "condition=Converged", "--timeout", "30s")
		g.remove("after.yaml")

		o, err := g.get("VM", "web-1")
		require.NoError(t, err)
		require.Equal(t, revision, o.Metadata.Revision)
	})

	g.running("web-1")
	require.Equal(t, before, h.identity("web-1"))
	require.NotContains(t, seen.String(), "'web-1': Undefined")
	require.NotContains(t, seen.String(), "'web-1': Stopped")
}

func saveAsVim(t *testing.T, path, text string) {
	require.NoError(t, os.Rename(path, path+"~"))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Remove(path+"~"))
}

// pieceTime is the pause between two pieces of a file: less than the 250 ms after which a file counts as written.
const pieceTime = 100 * time.Millisecond

func saveAsVSCode(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)

	third := len(text) / 3
	for _, piece := range []string{text[:third], text[third : 2*third], text[2*third:]} {
		<-time.After(pieceTime)

		_, err := f.WriteString(piece)
		require.NoError(t, err)
	}

	require.NoError(t, f.Close())
}

func saveAsSed(t *testing.T, path, text string) {
	_, description, _ := strings.Cut(text, "description: ")
	description, _, _ = strings.Cut(description, ",")

	out, err := exec.Command("sed", "-i", "s/description: [^,]*/description: "+description+"/", path).CombinedOutput()
	require.NoError(t, err, string(out))
}

func saveAsRsync(t *testing.T, path, text string) {
	hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".Xk3a9Q")
	require.NoError(t, os.WriteFile(hidden, []byte(text), 0o600))
	require.NoError(t, os.Rename(hidden, path))
}

func saveAsGit(t *testing.T, path, text string) {
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func saveAsScp(t *testing.T, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
