package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/config"
)

func TestReadSecret(t *testing.T) {
	root := t.TempDir()
	allowed, other := filepath.Join(root, "allowed"), filepath.Join(root, "other")
	require.NoError(t, os.Mkdir(allowed, 0o700))
	require.NoError(t, os.Mkdir(other, 0o700))

	write := func(path string, size int) string {
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("s"), size), 0o600))

		return path
	}

	policy := config.Policy{SecretPaths: []string{allowed}}

	content, err := policy.ReadSecret(write(filepath.Join(allowed, "most"), 256<<10))
	require.NoError(t, err)
	require.Len(t, content, 256<<10)

	link := filepath.Join(allowed, "link")
	require.NoError(t, os.Symlink(write(filepath.Join(other, "secret"), 10), link))

	for name, test := range map[string]struct{ path, why string }{
		"a file elsewhere":                      {filepath.Join(other, "secret"), "is not allowed: policy.secretPaths has " + allowed},
		"a way out of the directory":            {allowed + "/../other/secret", "not a clean absolute path"},
		"a link that leads out of it by now":    {link, "is a symbolic link that leads to " + filepath.Join(other, "secret")},
		"a directory":                           {allowed, "is no regular file"},
		"a file that is not there":              {filepath.Join(allowed, "missing"), "no such file"},
		"a file that is larger than one may be": {write(filepath.Join(allowed, "large"), 256<<10+1), "has more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.ReadSecret(test.path)
			require.ErrorContains(t, err, test.why)
		})
	}
}
