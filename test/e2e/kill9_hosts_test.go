package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// qemuHost is a private libvirtd whose domains are watched over kills of the gateway.
type qemuHost struct {
	*hypervisor

	ran map[string]identity
}

// note passes over a domain that libvirt is still starting: it is paused so far.
func (h *qemuHost) note(t *testing.T) {
	t.Helper()

	for name := range strings.FieldsSeq(h.virsh("list", "--state-running", "--name")) {
		now := h.identity(name)
		if before, known := h.ran[name]; known {
			require.Equal(t, before, now, "domain %s was touched", name)
		}

		h.ran[name] = now
	}

	// One that ran and is off was touched as well.
	for name := range h.ran {
		require.NoError(t, h.isRunning(name))
	}
}

func (h *qemuHost) once(t *testing.T, names []string) {
	t.Helper()
	require.ElementsMatch(t, names, h.domains())
	require.Len(t, h.networks(), 1)

	uuids := map[string]bool{}
	for _, name := range names {
		require.NoError(t, h.isRunning(name))
		uuids[h.virsh("domuuid", name)] = true
	}

	require.Len(t, uuids, len(names))

	var disks []string
	for _, name := range names {
		disks = append(disks, name+".root.qcow2")
	}

	require.ElementsMatch(t, disks, volumes(t, h.hypervisor))
}

func (h *qemuHost) empty(t *testing.T) {
	t.Helper()

	eventually(t, "virsh shows nothing", func() error {
		if d, n := h.domains(), h.networks(); len(d)+len(n) > 0 {
			return fmt.Errorf("left: %s %s", d, n)
		}

		return nil
	})
	require.Empty(t, volumes(t, h.hypervisor))
}

// simHost is a simulated host that keeps its domains in a file: a log of what was done to it, which the tests read.
type simHost struct{ file string }

func newSimHost(t *testing.T) *simHost {
	t.Helper()

	return &simHost{file: filepath.Join(t.TempDir(), "host")}
}

func (h *simHost) host() string {
	return document("Host", "sim", fmt.Sprintf("{uri: %q}", "sim://kill?shutdown=10ms&state="+h.file))
}

// history is what a state file says was done.
type history struct {
	// uuids of the domains by name, and starts, stops and removals by UUID.
	uuids                 map[string]map[string]bool
	starts, stops, gone   map[string]int
	networks, networkGone int
	// volumes are those that are there.
	volumes map[string]bool
}

func (h *simHost) history(t *testing.T) history {
	t.Helper()

	s := history{uuids: map[string]map[string]bool{}, starts: map[string]int{}, stops: map[string]int{}, gone: map[string]int{}, volumes: map[string]bool{}}

	text, err := os.ReadFile(h.file)
	if errors.Is(err, os.ErrNotExist) {
		return s
	}

	require.NoError(t, err)

	for line := range strings.Lines(string(text)) {
		var r struct {
			Domain *struct {
				Spec struct{ Name, UUID string }
			}
			Power *struct {
				UUID string
				On   bool
			}
			Gone        string
			Network     *struct{}
			NetworkGone string
			Volume      *struct{ Name string }
			VolumeGone  string
		}

		if json.Unmarshal([]byte(line), &r) != nil {
			continue // cut off by a kill
		}

		switch {
		case r.Domain != nil:
			if s.uuids[r.Domain.Spec.Name] == nil {
				s.uuids[r.Domain.Spec.Name] = map[string]bool{}
			}

			s.uuids[r.Domain.Spec.Name][r.Domain.Spec.UUID] = true
		case r.Power != nil && r.Power.On:
			s.starts[r.Power.UUID]++
		case r.Power != nil:
			s.stops[r.Power.UUID]++
		case r.Gone != "":
			s.gone[r.Gone]++
		case r.Volume != nil:
			s.volumes[r.Volume.Name] = true
		case r.VolumeGone != "":
			delete(s.volumes, r.VolumeGone)
		case r.Network != nil:
			s.networks++
		case r.NetworkGone != "":
			s.networkGone++
		}
	}

	return s
}

func (h *simHost) note(t *testing.T) {
	t.Helper()

	s := h.history(t)
	require.Empty(t, s.stops, "domains that were stopped")
	require.Empty(t, s.gone, "domains that were removed")

	for uuid, n := range s.starts {
		require.Equal(t, 1, n, "domain %s was started again", uuid)
	}
}

func (h *simHost) once(t *testing.T, names []string) {
	t.Helper()

	s := h.history(t)
	require.Len(t, s.uuids, len(names))
	require.Len(t, s.starts, len(names))
	require.Len(t, s.volumes, len(names))

	for _, name := range names {
		require.Len(t, s.uuids[name], 1, "UUIDs of %s", name)
	}
}

func (h *simHost) empty(t *testing.T) {
	t.Helper()

	eventually(t, "the simulated host is empty", func() error {
		s := h.history(t)
		if len(s.gone) != len(s.uuids) || s.networkGone == 0 {
			return fmt.Errorf("%d domains, %d gone; networks gone: %d", len(s.uuids), len(s.gone), s.networkGone)
		}

		return nil
	})

	require.Empty(t, h.history(t).volumes)

	for uuid, n := range h.history(t).starts {
		require.Equal(t, 1, n, "domain %s was started again while it was torn down", uuid)
	}
}
