package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLostDataDirectory has a gateway whose data directory is gone while its domains run: nothing is torn down, and
// `gateway import --all` gives it its domains back, those that files declare and those that came by the API.
func TestLostDataDirectory(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	g.write("host.yaml", h.host())
	g.start()

	lost := g.ownID()
	inFile := documents(
		document("Network", "lan", "{mode: isolated, subnet: 10.82.0.0/24}"),
		document("VM", "filed", "{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 8MiB}]}"),
	)
	g.write("vms.yaml", inFile)
	require.NoError(t, os.WriteFile(g.path("api.yaml"), []byte(document("VM", "applied",
		"{memory: 64MiB, cpus: 2, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 8MiB}]}")), 0o600))
	g.cli("apply", "-f", "api.yaml")
	g.running("filed", "applied")

	names := []string{"filed", "applied"}
	before, network, events := map[string]identity{}, h.definitions(), h.watch(t)
	text := map[string]string{}

	for _, name := range names {
		before[name], text[name] = h.identity(name), h.withoutMark(name)
	}

	untouched := func(t *testing.T) {
		t.Helper()

		for _, name := range names {
			require.Equal(t, before[name], h.identity(name))
			require.Equal(t, text[name], h.withoutMark(name))
			require.NotContains(t, events.String(), name, "libvirt's events")
		}

		require.Equal(t, network, h.definitions())
	}

	g.stop()
	require.NoError(t, os.RemoveAll(g.path("data")))
	g.start()
	require.NotEqual(t, lost, g.ownID())

	g.reason(t, "filed", "NameTaken")
	untouched(t)

	t.Run("its documents give them back", func(t *testing.T) {
		defer g.under(t)()
		defer h.under(t)()

		yaml, remarks, code := g.run("import", "--all")
		require.Zero(t, code, remarks)
		require.Contains(t, remarks, "it carries the mark of gateway "+lost)
		require.NoError(t, os.WriteFile(g.path("import.yaml"), []byte(yaml), 0o600))

		g.cli("apply", "-f", "import.yaml", "--wait", "--timeout", "60s")
		g.running(names...)
		untouched(t)

		defined := g.modified()["DefineDomain"]
		g.cli("sync", "VM", "-l", "{}")
		g.running(names...)
		require.Equal(t, defined, g.modified()["DefineDomain"])
		untouched(t)
	})

	t.Run("and they start again from their disks", func(t *testing.T) {
		defer g.under(t)()
		defer h.under(t)()

		for _, name := range names {
			h.virsh("destroy", name)
		}

		eventually(t, "both run again", func() error {
			for _, name := range names {
				if err := h.isRunning(name); err != nil {
					return err
				}
			}

			return nil
		})
		g.running(names...)

		for _, name := range names {
			require.Equal(t, text[name], h.withoutMark(name))
		}
	})

	t.Run("and a file that still declares one of them says so, and changes nothing", func(t *testing.T) {
		defer g.under(t)()
		defer h.under(t)()

		g.write("vms.yaml", strings.Replace(inFile, "64MiB", "128MiB", 1))
		g.complains(t, "vms.yaml", "VM/filed", "api")
		require.Equal(t, text["filed"], h.withoutMark("filed"))
	})
}

// TestLostDataDirectoryWithItsID has the same loss, and a gateway that is told its id: everything is its own again.
func TestLostDataDirectoryWithItsID(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	g.write("host.yaml", h.host())
	g.start()

	lost := g.ownID()
	g.write("lan.yaml", document("Network", "lan", "{mode: isolated, subnet: 10.83.0.0/24}"))

	names := []string{"zeta", "alpha", "mid"}
	for _, name := range names {
		g.write(name+".yaml", document("VM", name, "{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 8MiB}]}"))
		g.running(name)
	}

	before, network, events := map[string]identity{}, h.entries("lan"), h.watch(t)
	for _, name := range names {
		before[name] = h.identity(name)
	}

	g.stop()
	require.NoError(t, os.RemoveAll(g.path("data")))
	g.config = fmt.Sprintf("id: %s\n%s", lost, g.config)
	g.start()
	g.running(names...)

	for _, name := range names {
		require.Equal(t, before[name], h.identity(name))
		require.NotContains(t, events.String(), name, "libvirt's events")
	}

	require.Equal(t, network, h.entries("lan"), "every VM has the address that it had")
}

// entries returns the entries for DHCP of a network, sorted.
func (h *hypervisor) entries(network string) []string {
	h.t.Helper()

	found := regexp.MustCompile(`<host mac=[^>]*>`).FindAllString(h.virsh("net-dumpxml", network), -1)
	slices.Sort(found)

	return found
}

// ownID returns the id of the gateway.
func (g *gateway) ownID() string {
	g.t.Helper()

	id, err := os.ReadFile(g.path("data/id"))
	require.NoError(g.t, err)

	return strings.TrimSpace(string(id))
}

// reason waits until a VM is not converged for a reason.
func (g *gateway) reason(t *testing.T, name, reason string) {
	t.Helper()

	eventually(t, "VM "+name+" is "+reason, func() error {
		o, err := g.get("VM", name)
		if err == nil && o.Status.condition("Converged").Reason != reason {
			err = fmt.Errorf("%+v", o.Status)
		}

		return err
	})
}
