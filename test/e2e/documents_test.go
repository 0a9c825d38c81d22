package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// document returns a document of a kind. spec is YAML in one line.
func document(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
}

// documents puts several into one file.
func documents(texts ...string) string { return strings.Join(texts, "---\n") }

// removeAll deletes files of the directory. Where they declare more than may go without being asked for, it confirms.
func (g *gateway) removeAll(t *testing.T, pattern string) {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(g.documents(), pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)

	before, err := g.list("VM")
	require.NoError(t, err)

	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}

	// 10 objects are `deletions.free`.
	if len(before) <= 10 {
		return
	}

	eventually(t, "the mass deletion waits for its confirmation, and is confirmed", func() error {
		_, errs, code := g.run("confirm", g.documents())
		if code != 0 {
			return errors.New(errs)
		}

		return nil
	})
}
