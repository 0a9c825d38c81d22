package readme

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// composeFile is what of docker-compose.yml has to agree with the rest of the repository.
type composeFile struct {
	Services map[string]struct {
		Build struct {
			Target string            `yaml:"target"`
			Args   map[string]string `yaml:"args"`
		} `yaml:"build"`
		Profiles    []string `yaml:"profiles"`
		NetworkMode string   `yaml:"network_mode"`
		Volumes     []string `yaml:"volumes"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

func TestTheComposeFileNamesWhatIsThere(t *testing.T) {
	var file composeFile

	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file))
	require.Contains(t, file.Services, "gateway")
	require.Contains(t, file.Services, "nats")
	require.Equal(t, []string{"libvirt"}, file.Services["libvirt"].Profiles)

	dockerfile := read(t, "Dockerfile")

	for name, service := range file.Services {
		require.Contains(t, dockerfile, " AS "+service.Build.Target+"\n", name)
		// Another argument, and a builder without BuildKit compiles everything once more for that image.
		require.Equal(t, file.Services["gateway"].Build.Args, service.Build.Args, name)
		// The networks of guests would outlive the container, on the machine.
		require.Empty(t, service.NetworkMode, name)

		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")

			if !strings.HasPrefix(source, "./") {
				require.Contains(t, file.Volumes, source, name)

				continue
			}

			_, err := os.Stat(filepath.Join(root(t), source))
			require.NoError(t, err, name)
		}
	}

	ignored := strings.Split(read(t, ".dockerignore"), "\n")
	require.Contains(t, ignored, "config/examples/compose", "a dropped document builds nothing anew, and no secret gets into an image")
}
