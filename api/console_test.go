package api_test

import (
	"bufio"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api/apitest"
	"gateway/resources"
)

// consoleWorld has VM web with its domain on host a, running.
func consoleWorld(t *testing.T) *apitest.World {
	t.Helper()

	w := apitest.Start(t)
	require.NoError(t, w.Host("a").AddDomain(foreign("web", "test")))
	w.VM("web", nil)
	w.Observe("web", func(s *resources.VMStatusSpec) {
		s.DomainUUID, s.Host, s.State = foreign("web", "test").UUID, "a", resources.StateRunning
	})

	return w
}

func TestConsoleCarriesBothWays(t *testing.T) {
	w := consoleWorld(t)

	console, err := w.Client.Console(t.Context(), "web", false)
	require.NoError(t, err)

	lines := bufio.NewReader(console)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "Connected to domain web\r\n", line)

	_, err = io.WriteString(console, "reboot\n")
	require.NoError(t, err)

	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "reboot\r\n", line)

	_, err = w.Client.Console(t.Context(), "web", false)
	require.ErrorContains(t, err, `somebody else is attached to the console of VM "web": --force takes it over`)

	taken, err := w.Client.Console(t.Context(), "web", true)
	require.NoError(t, err)

	_, err = io.Copy(io.Discard, lines)
	require.NoError(t, err, "it ends for who was there before")

	// Who leaves makes room.
	require.NoError(t, taken.Close())
	require.Eventually(t, func() bool {
		console, err = w.Client.Console(t.Context(), "web", false)

		return err == nil
	}, 10*time.Second, 10*time.Millisecond)

	require.True(t, w.Sim.Host("a").Destroy(foreign("web", "test").UUID))

	_, err = io.Copy(io.Discard, console)
	require.NoError(t, err, "it ends with its guest")
}

func TestConsolesThatCantBeAttachedTo(t *testing.T) {
	for name, test := range map[string]struct {
		vm      string
		prepare func(*apitest.World)
		want    string
	}{
		"of a VM that is not there": {"nobody", nil, `VM "nobody": not found`},
		"of a VM without a domain": {"web", func(w *apitest.World) {
			w.Observe("web", func(s *resources.VMStatusSpec) { s.DomainUUID, s.Host = "", "" })
		}, `VM "web" has no domain yet`},
		"of a VM that is off": {"web", func(w *apitest.World) { w.Sim.Host("a").Destroy(foreign("web", "test").UUID) },
			"VM \"web\" is not running: `gateway start web`"},
		"on a host that is away": {"web", func(w *apitest.World) { delete(w.Hosts, "a") }, "host unreachable"},
		"of a domain that is somebody else's": {"web", func(w *apitest.World) {
			d := foreign("theirs", "other")
			d.Spec.CPUs = 1
			_ = w.Sim.Host("a").AddDomain(d)
			w.Observe("web", func(s *resources.VMStatusSpec) { s.DomainUUID = d.UUID })
		}, `the domain of VM "web" is not this gateway's`},
	} {
		t.Run(name, func(t *testing.T) {
			w := consoleWorld(t)
			if test.prepare != nil {
				test.prepare(w)
			}

			_, err := w.Client.Console(t.Context(), test.vm, false)
			require.ErrorContains(t, err, test.want)
		})
	}
}
