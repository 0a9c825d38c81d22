package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// storing is a gateway that stores an image on a hypervisor, and stops in the middle of it.
type storing struct {
	*gateway
	*depot

	h *hypervisor
}

// vmFromImage has a disk that is made at once, and one that waits for its image.
const vmFromImage = "{memory: 64MiB, power: stopped, placement: {host: a}, disks: [{name: data, size: 16MiB, onDelete: remove}, {name: root, image: base, onDelete: remove}]}"

// newStoring has an image of several MiB.
func newStoring(t *testing.T) *storing {
	t.Helper()

	s := &storing{depot: newDepot(t, strings.Repeat("written in the image", 200_000)), h: newHypervisor(t), gateway: newGateway(t, "resync: 5m")}
	s.imageURLs = s.policy()

	return s
}

// halfway declares the image and a VM that starts from it, and returns when the hypervisor has half of the image and a volume of
// the VM.
func (s *storing) halfway(vm string) {
	s.gateway.t.Helper()
	s.halted.Store(true)
	s.write("image.yaml", documents(s.image(s.digest()), document("VM", "web", vm)))

	eventually(s.gateway.t, "half of the image is there", func() error {
		file := s.file("image.base.*.qcow2")
		if info, err := os.Stat(file); err != nil || info.Size() < 256<<10 || s.file("web.data.qcow2") == "" {
			return fmt.Errorf("%q, %w: %s", file, err, volumes(s.gateway.t, s.h))
		}

		return nil
	})
	require.NotEmpty(s.gateway.t, s.file("image.base.*.part"), "it is marked as one that is not complete")
	require.Empty(s.gateway.t, s.h.domains())
}

// file returns a file of the gateway's pool; empty: there is none.
func (s *storing) file(pattern string) string {
	s.gateway.t.Helper()

	found, err := filepath.Glob(filepath.Join(s.h.Path("/var/lib/libvirt/images"), "gateway-*", pattern))
	require.NoError(s.gateway.t, err)

	if len(found) == 0 {
		return ""
	}

	return found[0]
}

// whole lets the image come to its end: it is there as it was served, with the VM, and nothing else is.
func (s *storing) whole() {
	s.gateway.t.Helper()
	s.halted.Store(false)
	// The next attempt may be minutes away.
	s.cli("sync", "Image", "base")
	s.reason(s.gateway.t, "web", "Converged")

	require.Equal(s.gateway.t, s.content, readFile(s.gateway.t, s.file("image.base.*.qcow2")), "the image is whole")
	require.ElementsMatch(s.gateway.t, []string{filepath.Base(s.file("image.base.*.qcow2")), "web.data.qcow2", "web.root.qcow2"}, volumes(s.gateway.t, s.h))
	require.Equal(s.gateway.t, []string{"web"}, s.h.domains())
}

// TestCaseV66AKillWhileAnImageIsStoredOnQEMU kills the hypervisor's daemon, and then the gateway, while an image is on its way. What
// there is of it is never used, and nothing of it is left.
func TestCaseV66AKillWhileAnImageIsStoredOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	s := newStoring(t)
	s.write("host.yaml", documents(s.h.named("a", ""), document("Network", "stays", "{mode: isolated, subnet: 10.79.0.0/24}")))
	s.start()

	for name, kill := range map[string]func(){
		"the daemon": func() { s.h.restart(t) },
		"the gateway": func() {
			s.kill()
			s.start()
		},
	} {
		t.Logf("%s is killed", name)
		s.halfway(vmFromImage)
		kill()
		s.whole()

		s.remove("image.yaml")
		s.none("VM")
		s.none("Image")
		require.Empty(t, volumes(t, s.h))
	}

	s.stop()
}

// TestCaseV22HostDiesOnQEMU loses a host when a VM has a volume there, and no domain yet. Another host has room, and does not get the
// VM; the work goes on where it began once the host is back.
func TestCaseV22HostDiesOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	s, other := newStoring(t), newHypervisor(t)
	hosts := func(more string) string { return documents(s.h.named("a", ""), other.named("b", more)) }
	s.write("hosts.yaml", hosts(", schedulable: false"))
	s.start()
	s.halfway(strings.Replace(vmFromImage, "placement: {host: a}, ", "", 1))
	s.write("hosts.yaml", hosts(""))

	require.NoError(t, s.h.Kill())
	s.all(t, "a", "unknown", 1)
	s.halted.Store(false)
	s.cli("sync", "VM", "web")
	eventually(t, "the other host has the image", func() error {
		if len(volumes(t, other)) == 0 {
			return fmt.Errorf("%s", s.cli("get", "image", "base", "-o", "yaml"))
		}

		return nil
	})
	require.Empty(t, other.domains())

	s.h.restart(t)
	s.whole()
	require.Empty(t, other.domains())
	s.stop()
}
