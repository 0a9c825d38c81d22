package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/client"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// differ asks a running gateway what documents would change.
type differ struct {
	*testing.T

	client *client.Client
	// dir is the documents directory.
	dir  string
	host *sim.Host
}

// startDiffer runs a gateway whose VMs are up.
func startDiffer(t *testing.T, documents map[string]string, vms ...string) (*differ, string) {
	t.Helper()

	documents["host.yaml"] = simHost(t)
	g, dir := start(t, documents)

	for _, name := range vms {
		eventually(t, name+" runs", func() bool { return stateOf(t, g, name) == resources.StateRunning })
	}

	c, err := client.New("unix://" + filepath.Join(filepath.Dir(dir), "data", api.SocketName))
	require.NoError(t, err)
	t.Cleanup(c.Close)

	return &differ{T: t, client: c, dir: dir, host: sim.Default().Host(strings.ToLower(t.Name()))}, g.ID()
}

// diff compares files, by their name in the documents directory, with what is in force. All other files of the directory are
// as they are.
func (d *differ) diff(changed map[string]string) map[string]api.ObjectDiff {
	d.Helper()

	request := api.DiffRequest{Under: []string{d.dir}}

	entries, err := os.ReadDir(d.dir)
	require.NoError(d, err)

	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		require.NoError(d, err)

		if other, ok := changed[e.Name()]; ok {
			text = []byte(other)
		}

		request.Files = append(request.Files, api.DiffFile{Name: filepath.Join(d.dir, e.Name()), Data: string(text)})
	}

	answer, err := d.client.Diff(d.Context(), request)
	require.NoError(d, err)

	objects := map[string]api.ObjectDiff{}
	for _, o := range answer.Objects {
		objects[o.Kind+"/"+o.Name] = o
	}

	return objects
}

func document(name, spec string) string {
	return "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: " + name + "}\nspec: {shutdown: {grace: 1s}, " + spec + "}\n"
}

// A rename is seen beforehand: what goes, with its disks, and what comes. Nothing is touched by looking.
func TestCaseV1ARenameIsSeenBeforehand(t *testing.T) {
	disks := "disks: [{name: root, size: 1GiB}, {name: scratch, size: 1GiB, onDelete: remove}]"
	d, _ := startDiffer(t, map[string]string{"a.yaml": document("a", disks)}, "a")

	before := sim.Default().Changes()
	objects := d.diff(map[string]string{"a.yaml": document("b", disks)})

	require.Equal(t, api.DiffDelete, objects["VM/a"].Action)
	require.Equal(t, []string{
		"shuts the guest down, and forces it off after 1s", "undefines its domain, with NVRAM, saved state and snapshots",
		"keeps the volume of disk root", "removes the volume of disk scratch",
	}, objects["VM/a"].Steps)
	require.Equal(t, api.DiffCreate, objects["VM/b"].Action)
	require.Equal(t, api.DiffNone, objects["Host/a"].Action)
	require.Equal(t, before, sim.Default().Changes())
}

func TestADiffSaysWhatNeedsARestart(t *testing.T) {
	was := document("web", "maxCpus: 4, maxMemory: 2GiB, disks: [{name: root, size: 1GiB}], interfaces: [{network: lan}]")
	d, _ := startDiffer(t, map[string]string{"web.yaml": was}, "web")

	for name, test := range map[string]struct {
		spec string
		want map[string]string
	}{
		"nothing": {"maxCpus: 4, maxMemory: 2GiB, disks: [{name: root, size: 1GiB}], interfaces: [{network: lan}]", map[string]string{}},
		"all that is live": {
			"cpus: 3, maxCpus: 4, memory: 1GiB, maxMemory: 2GiB, disks: [{name: root, size: 2GiB, onDelete: remove}, {name: data, size: 1GiB}], power: paused",
			map[string]string{
				"spec.cpus": "live", "spec.memory": "live", "spec.disks[root].size": "live", "spec.disks[root].onDelete": "live",
				"spec.disks[data].size": "live", "spec.disks[data].onDelete": "live", "spec.interfaces[0].network": "live", "spec.power": "live",
			},
		},
		"all that is not": {
			"cpus: 5, maxCpus: 5, memory: 4GiB, maxMemory: 4GiB, firmware: uefi, graphics: vnc, guestAgent: true, " +
				"disks: [{name: root, size: 1GiB}], interfaces: [{network: lan}]",
			map[string]string{
				"spec.cpus": "restart", "spec.maxCpus": "restart", "spec.memory": "restart", "spec.maxMemory": "restart",
				"spec.firmware": "restart", "spec.graphics": "restart", "spec.guestAgent": "restart",
			},
		},
		"what is refused": {
			"maxCpus: 4, maxMemory: 2GiB, disks: [{name: root, size: 512MiB}], interfaces: [{network: lan}]",
			map[string]string{"spec.disks[root].size": "refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := d.diff(map[string]string{"web.yaml": document("web", test.spec)})["VM/web"]
			got := map[string]string{}

			for _, f := range object.Fields {
				got[f.Path] = f.Effect
				require.NotEqual(t, f.From, f.To)
				require.False(t, f.Drift)
			}

			require.Equal(t, test.want, got)
		})
	}
}

// What others did to the domain is told apart from what the document changes.
func TestADiffShowsDrift(t *testing.T) {
	d, id := startDiffer(t, map[string]string{"web.yaml": document("web", "memory: 128MiB")}, "web")
	require.NoError(t, d.client.Hold(t.Context(), "VM", "web", ""))
	require.True(t, d.host.SetMemory(hypervisor.DomainUUID(id, "web"), 256*resources.MiB))

	object := d.diff(nil)["VM/web"]
	require.Equal(t, api.DiffChange, object.Action)
	require.Len(t, object.Fields, 1)
	require.Equal(t, "spec.memory", object.Fields[0].Path)
	require.Equal(t, "256MiB", object.Fields[0].From)
	require.Equal(t, "128MiB", object.Fields[0].To)
	require.True(t, object.Fields[0].Drift)
}

func TestADiffWithoutTheHostIsOfTheDocumentsAlone(t *testing.T) {
	d, _ := startDiffer(t, map[string]string{"web.yaml": document("web", "memory: 128MiB")}, "web")
	d.host.Kill(false)
	t.Cleanup(d.host.Revive)

	eventually(t, "the host is known to be away", func() bool {
		object := d.diff(map[string]string{"web.yaml": document("web", "memory: 128MiB, firmware: uefi")})["VM/web"]

		return len(object.Notes) == 1 && strings.Contains(object.Notes[0], "can't be asked") &&
			len(object.Fields) == 1 && object.Fields[0].Effect == api.EffectRestart
	})
}

// What moves to another file of the directory changes owner, and nothing else.
func TestADiffKnowsThatADocumentMoved(t *testing.T) {
	d, _ := startDiffer(t, map[string]string{"a.yaml": document("a", "cpus: 1"), "b.yaml": document("b", "cpus: 1")}, "a", "b")

	objects := d.diff(map[string]string{"a.yaml": "", "b.yaml": document("b", "cpus: 1") + "---\n" + document("a", "cpus: 1")})
	require.Equal(t, api.DiffNone, objects["VM/a"].Action)
	require.Len(t, objects["VM/a"].Notes, 1)
	require.Contains(t, objects["VM/a"].Notes[0], "b.yaml instead of file:")
}
