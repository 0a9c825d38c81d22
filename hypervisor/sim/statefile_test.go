package sim_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// fill makes something of every kind on a host.
func fill(t *testing.T, d hypervisor.Driver, w *sim.World) {
	t.Helper()

	_, err := d.EnsureNetwork(t.Context(), hypervisor.NetworkSpec{
		Name: "lan", UUID: "u", Mode: "nat", Subnet: "10.7.0.0/24", Hosts: []hypervisor.NetworkHost{{MAC: "52:54:00:00:00:01", Address: "10.7.0.10", Name: "web"}},
	})
	require.NoError(t, err)

	path, _, err := d.EnsureVolume(t.Context(), hypervisor.VolumeSpec{Name: "web.root.qcow2", Size: resources.GiB, Backing: "/images/debian.qcow2"})
	require.NoError(t, err)

	spec := specOf("web")
	spec.Description = "</name>\n\"<x/>"
	spec.Boot = &resources.Boot{Kernel: "/boot/vmlinuz"}
	spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:00:00:01", Network: "lan"}}
	spec.Disks = []hypervisor.DomainDisk{{Name: "root", Path: path, Format: "qcow2"}}
	running(t, d, spec)

	spec.Memory = resources.GiB // needs a restart
	_, err = d.DefineDomain(t.Context(), spec)
	require.NoError(t, err)

	paused, gone := running(t, d, specOf("paused")), running(t, d, specOf("gone"))
	require.NoError(t, d.Pause(t.Context(), paused))
	require.NoError(t, d.ForceOff(t.Context(), gone))
	require.NoError(t, d.UndefineDomain(t.Context(), gone))
	require.NoError(t, w.Host("a").AddDomain(hypervisor.Domain{Name: "foreign", UUID: "f", Autostart: true, Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB}}))
}

// contents returns all that is on a host.
func contents(t *testing.T, d hypervisor.Driver) []any {
	t.Helper()

	domains, err := d.Domains(t.Context())
	require.NoError(t, err)

	networks, err := d.Networks(t.Context())
	require.NoError(t, err)

	addresses, err := d.Addresses(t.Context(), specOf("web").UUID)
	require.NoError(t, err)

	return []any{domains, networks, addresses}
}

func TestStateFileOutlivesAKill(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	w := sim.NewWorld()
	d := open(t, w, "sim://a?state="+file)
	fill(t, d, w)

	want, volumes := contents(t, d), w.Host("a").Volumes()

	// What a kill -9 leaves is what is in the file now, with or without half a line.
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	for name, tail := range map[string]string{"between writes": "", "in the middle of a write": `{"domain":{"spec":{"na`} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "state")
			require.NoError(t, os.WriteFile(copied, append(bytes.Clone(data), tail...), 0o600))

			for range 3 {
				w := sim.NewWorld()
				d := open(t, w, "sim://a?state="+copied)
				require.Equal(t, want, contents(t, d))
				require.Equal(t, volumes, w.Host("a").Volumes())

				running(t, d, specOf("another"))
				require.NoError(t, d.ForceOff(t.Context(), specOf("another").UUID))
				require.NoError(t, d.UndefineDomain(t.Context(), specOf("another").UUID))
				require.NoError(t, w.Close())
			}
		})
	}
}

func TestStateFileRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	broken := filepath.Join(dir, "broken")

	require.NoError(t, os.WriteFile(broken, []byte("{\"gone\":\"x\"}\n{\"domain\":{}}\n"), 0o600))

	w := sim.NewWorld()
	d := open(t, w, "sim://a?state="+file)
	running(t, d, specOf("web"))

	defer func() { require.NoError(t, w.Close()) }()

	other := sim.NewWorld()
	running(t, open(t, other, "sim://full"), specOf("web"))

	for name, c := range map[string]struct {
		world        *sim.World
		uri, message string
	}{
		"a second host on the same file":       {w, "sim://b?state=" + file, "another host keeps its state in"},
		"another file for the same host":       {w, "sim://a?state=" + file + "2", "already"},
		"to go on without":                     {w, "sim://a", "say ?state= there"},
		"a file that is broken":                {other, "sim://c?state=" + broken, "broken:2"},
		"a directory that does not exist":      {other, "sim://d?state=" + dir + "/none/state", "no such file"},
		"to mix a host and a file with things": {other, "sim://full?state=" + copyOf(t, file), "has domains, networks, volumes or images"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sim.NewOpener(c.world)(t.Context(), c.uri, "home")
			require.ErrorContains(t, err, c.message)
		})
	}

	t.Run("but takes over a host that had none before", func(t *testing.T) {
		fresh := filepath.Join(dir, "fresh")
		before := contents(t, open(t, other, "sim://full"))
		open(t, other, "sim://full?state="+fresh)
		require.NoError(t, other.Close())

		require.Equal(t, before, contents(t, open(t, sim.NewWorld(), "sim://full?state="+copyOf(t, fresh))))
	})
}

// copyOf copies a file to where nobody has locked it.
func copyOf(t *testing.T, file string) string {
	t.Helper()

	data, err := os.ReadFile(file)
	require.NoError(t, err)

	name := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(name, data, 0o600))

	return name
}

func TestStateFileStaysSmall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	w := sim.NewWorld()
	d := open(t, w, "sim://a?state="+file)
	uuid := running(t, d, specOf("web"))

	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 15_000 {
				w.Host("a").Pause(uuid)
				w.Host("a").Resume(uuid)
			}
		})
	}

	callers.Wait()

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(3<<20))
	require.NoError(t, w.Close())

	w = sim.NewWorld()
	open(t, w, "sim://a?state="+file)

	state, _ := stateOf(t, w.Host("a"), uuid)
	require.Equal(t, resources.StateRunning, state)
	require.NoError(t, w.Close())
}

func TestStateFileOfManyDomains(t *testing.T) {
	const domains = 10_000

	file := filepath.Join(t.TempDir(), "state")
	makeDomains(t, file, domains)

	w := sim.NewWorld()
	all, err := open(t, w, "sim://a?state="+file).Domains(t.Context())
	require.NoError(t, err)
	require.Len(t, all, domains)
	require.True(t, slices.IsSortedFunc(all, func(a, b hypervisor.Domain) int { return strings.Compare(a.Name, b.Name) }))

	for _, d := range all {
		require.Equal(t, resources.StateRunning, d.State)
	}

	require.NoError(t, w.Close())
}

// makeDomains leaves a state file with running domains.
func makeDomains(t testing.TB, file string, domains int) {
	t.Helper()

	w := sim.NewWorld()
	d := open(t, w, "sim://a?state="+file)

	for i := range domains {
		running(t, d, specOf(fmt.Sprintf("vm-%d", i)))
	}

	require.NoError(t, w.Close())
}

// BenchmarkHundredThousandDomains makes, loads and lists 100,000 domains with a state file.
func BenchmarkHundredThousandDomains(b *testing.B) {
	const domains = 100_000

	for b.Loop() {
		file := filepath.Join(b.TempDir(), "state")
		began := time.Now()
		makeDomains(b, file, domains)

		made := time.Now()
		w := sim.NewWorld()
		d := open(b, w, "sim://a?state="+file)
		loaded := time.Now()

		all, err := d.Domains(b.Context())
		require.NoError(b, err)
		require.Len(b, all, domains)

		b.ReportMetric(made.Sub(began).Seconds(), "made-s")
		b.ReportMetric(loaded.Sub(made).Seconds(), "loaded-s")
		b.ReportMetric(time.Since(loaded).Seconds(), "listed-s")
		require.NoError(b, w.Close())
	}
}
