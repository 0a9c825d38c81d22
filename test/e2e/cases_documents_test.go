package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// simLab is a gateway with a simulated host.
func simLab(t *testing.T, config, host string) *gateway {
	t.Helper()

	g := newGateway(t, config)
	g.write("host.yaml", document("Host", "a", host))
	g.start()

	return g
}

// complains waits until the status of a file has an error with all of these texts.
func (g *gateway) complains(t *testing.T, file string, texts ...string) {
	t.Helper()

	path := filepath.Join(g.documents(), file)

	eventually(t, file+" has an error with "+strings.Join(texts, ", "), func() error {
		for line := range strings.Lines(g.cli("get", "files", "-o", "wide")) {
			if strings.HasPrefix(line, path) && containsAll(line, texts) {
				return nil
			}
		}

		return fmt.Errorf("%s", g.cli("get", "files"))
	})
}

// TestCasesOfBrokenDocuments keeps the last good version of what can't be read, and says where the fault is.
func TestCasesOfBrokenDocuments(t *testing.T) {
	g := simLab(t, "", `{uri: "sim://a"}`)
	good := document("Network", "lan", "{mode: isolated, subnet: 10.76.0.0/24}") + "---\n" +
		"apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: web}\nspec:\n  memory: 64MiB\n  interfaces:\n    - network: lan\n"
	g.write("web.yaml", good)
	g.running("web")

	before, err := g.get("VM", "web")
	require.NoError(t, err)

	modified := g.modified()

	for _, c := range []struct {
		name, text string
		errors     []string
	}{
		{"S22: cut off where it is still YAML", strings.TrimSuffix(good, "network: lan\n"), []string{"web.yaml:12:"}},
		{"V3: cut off within a word", good[:len(good)-9] + ": [", []string{"web.yaml:"}},
		{"V5: no memory", strings.Replace(good, "64MiB", "0", 1), []string{"spec.memory"}},
		{"V5: negative memory", strings.Replace(good, "64MiB", "-1", 1), []string{"spec.memory"}},
		{"V5: more memory than there is", strings.Replace(good, "64MiB", "1PiB", 1), []string{"spec.memory"}},
		{"V5: no CPUs", strings.Replace(good, "memory: 64MiB", "cpus: 0", 1), []string{"spec.cpus"}},
		{"V5: 100,000 CPUs", strings.Replace(good, "memory: 64MiB", "cpus: 100000", 1), []string{"spec.cpus"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.write("web.yaml", c.text)
			g.complains(t, "web.yaml", c.errors...)

			after, err := g.get("VM", "web")
			require.NoError(t, err)
			require.Equal(t, before, after, "the last good version stays in force")

			g.write("web.yaml", good)
			eventually(t, "the file is good again", func() error {
				if text := g.cli("get", "files", "-o", "wide"); strings.Contains(text, "spec.") || strings.Contains(text, "web.yaml:") {
					return fmt.Errorf("%s", text)
				}

				return nil
			})
		})
	}

	require.Equal(t, modified, g.modified(), "calls that change something")

	t.Run("S40, S42: clocks that never tick, or too fast", func(t *testing.T) { clocks(t, g) })

	g.stop()
}

func clocks(t *testing.T, g *gateway) {
	t.Helper()

	for i, cron := range []string{"0 0 31 2 *", "@every 1ms", "@every -5s", "TZ=UTC", "0 0 L * *"} {
		file := fmt.Sprintf("clock-%d.yaml", i)
		g.write(file, document("Schedule", fmt.Sprintf("clock-%d", i), fmt.Sprintf("{cron: %q}", cron)))
		g.complains(t, file, "spec.cron")
	}

	g.write("clock.yaml", documents(document("Schedule", "leap", `{cron: "0 0 29 2 *"}`), document("Schedule", "sunday", `{cron: "0 0 * * 7"}`)))
	eventually(t, "those that tick are declared", func() error {
		objects, err := g.list("Schedule")
		if err == nil && len(objects) != 2 {
			err = fmt.Errorf("there are %d", len(objects))
		}

		return err
	})
}

// TestCasesOfOwners has one object in several places, and directories that vanish.
func TestCasesOfOwners(t *testing.T) {
	g := simLab(t, "", `{uri: "sim://a"}`)

	t.Run("V2: of two files the first keeps the VM, the second says who has it", func(t *testing.T) {
		g.write("first.yaml", document("VM", "web", "{description: first}"))
		g.running("web")
		g.write("second.yaml", document("VM", "web", "{description: second}"))
		g.complains(t, "second.yaml", "first.yaml")

		described := g.cli("describe", "VM", "web")
		require.Contains(t, described, "first.yaml")
		require.Contains(t, described, "second.yaml")

		o, err := g.get("VM", "web")
		require.NoError(t, err)
		require.Equal(t, "first", o.Spec["description"])
	})

	t.Run("V6: decimal and binary sizes differ, and are shown as they are", func(t *testing.T) { sizes(t, g) })

	for i := range 100 {
		g.write(fmt.Sprintf("many-%d.yaml", i), document("VM", fmt.Sprintf("many-%d", i), "{memory: 64MiB}"))
	}

	g.all(t, "a", "running", 103)

	t.Run("S28: a directory that vanishes, or is emptied, tears nothing down", func(t *testing.T) {
		modified := g.modified()
		aside := g.path("aside")

		require.NoError(t, os.Rename(g.documents(), aside))
		g.unready(t)
		require.NoError(t, os.Mkdir(g.documents(), 0o755))
		eventually(t, "the mass deletion is held back", func() error {
			if text := g.cli("get", "deletionguards"); !strings.Contains(text, g.documents()) {
				return fmt.Errorf("%s", text)
			}

			return nil
		})
		require.NoError(t, os.Remove(g.documents()))
		require.NoError(t, os.Rename(aside, g.documents()))

		g.all(t, "a", "running", 103)
		require.Equal(t, modified, g.modified(), "calls that change something")
	})

	t.Run("S28: ten files of a hundred take ten VMs with them", func(t *testing.T) {
		for i := range 10 {
			g.remove(fmt.Sprintf("many-%d.yaml", i))
		}

		g.all(t, "a", "running", 93)
	})

	g.stop()
}

func sizes(t *testing.T, g *gateway) {
	t.Helper()

	g.write("sizes.yaml", documents(document("VM", "decimal", "{memory: 4GB}"), document("VM", "binary", "{memory: 4096Mi}")))
	g.running("decimal", "binary")

	decimal, err := g.get("VM", "decimal")
	require.NoError(t, err)

	binary, err := g.get("VM", "binary")
	require.NoError(t, err)
	require.Equal(t, "4GB", decimal.Spec["memory"])
	require.Equal(t, "4GiB", binary.Spec["memory"])
}

// unready waits until readiness names the documents directory.
func (g *gateway) unready(t *testing.T) {
	t.Helper()

	eventually(t, "the gateway says that its documents are away", func() error {
		text := g.cli("get", "fileroots", "-o", "yaml")
		if !strings.Contains(text, "available: true") {
			return nil
		}

		return fmt.Errorf("%s", text)
	})
}

// TestCaseV25RoomForFour has ten VMs where four fit.
func TestCaseV25RoomForFour(t *testing.T) {
	g := simLab(t, "", `{uri: "sim://a", capacity: {cpus: 4, memory: 1TiB}, overcommit: {cpus: 1}}`)

	texts := make([]string, 10)
	for i := range texts {
		texts[i] = document("VM", fmt.Sprintf("vm-%d", i), "{memory: 64MiB}")
	}

	g.write("vms.yaml", documents(texts...))
	g.all(t, "a", "running", 4)

	eventually(t, "six say what is short, and where", func() error {
		objects, err := g.list("VM")
		if err != nil {
			return err
		}

		waiting := 0

		for _, o := range objects {
			c := o.Status.condition("Placed")
			if !isTrue(c) && strings.Contains(c.Message, "CPU") && strings.Contains(c.Message, "host a") {
				waiting++
			}
		}

		if waiting != 6 {
			return fmt.Errorf("%d: %+v", waiting, objects)
		}

		return nil
	})

	g.all(t, "a", "running", 4)
	g.stop()
}
