package documents_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/internal/rig"
	"gateway/resources"
)

func TestAFileBecomesObjects(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2") +
			"apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec: {uri: \"sim://a\"}\n"})

		vm := w.vm("web")
		require.NotNil(t, vm)
		require.Equal(t, 2, vm.TypedSpec().CPUs)
		require.Equal(t, resources.Origin{Source: resources.OriginFile, Name: w.path("a.yaml"), Root: w.dir}, resources.OriginOf(vm.Metadata()))
		require.Empty(t, vm.Metadata().Owner(), "the generic destroy controller passes over owned objects")

		result := w.result("a.yaml")
		require.Empty(t, result.Error)
		require.Equal(t, "VM", result.Objects[0].Kind, "in the order of the file")
		require.Equal(t, resources.OutcomeCreated, result.Objects[1].Outcome)

		entries := w.entries("revision")
		require.Equal(t, "Host/a", entries[0].Object, "made in the order of what stands on what")
	})
}

func TestCaseV1ARenamedVMIsDeletedAndMade(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("a", ""), "x.yaml": document("x", "")})
		w.hold("a")
		w.scan(map[string]string{"a.yaml": document("b", "")})

		require.Equal(t, resource.PhaseTearingDown, w.vm("a").Metadata().Phase())
		require.Equal(t, resource.PhaseRunning, w.vm("b").Metadata().Phase())

		w.letGo("a")
		w.settle()
		require.Equal(t, []string{"b", "x"}, w.vms())
	})
}

func TestCaseV2TheSecondDeclarationIsAConflict(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 1")})
		w.scan(map[string]string{"b.yaml": document("web", "cpus: 2") + document("db", "")})

		require.Equal(t, 1, w.vm("web").TypedSpec().CPUs)
		require.NotNil(t, w.vm("db"), "the rest of the file is applied")

		conflict := w.result("b.yaml").Objects[0]
		require.Equal(t, resources.OutcomeConflict, conflict.Outcome)
		require.Contains(t, conflict.Message, w.path("a.yaml"))
		require.Contains(t, conflict.Message, w.path("b.yaml"))

		// The first one goes: the second gets it without a teardown.
		uid := resources.UIDOf(w.vm("web").Metadata())
		w.scan(map[string]string{"a.yaml": ""})
		require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
		require.Equal(t, uid, resources.UIDOf(w.vm("web").Metadata()))
		require.Equal(t, resources.OutcomeUpdated, w.result("b.yaml").Objects[0].Outcome)
	})
}

func TestAConflictWithAnotherWayInEndsWhenItsObjectGoes(t *testing.T) {
	run(t, func(w *world) {
		w.webhook("e1", document("web", "cpus: 1"), resources.ApplyRule{Kinds: []string{"VM"}})
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})
		require.Contains(t, w.result("a.yaml").Objects[0].Message, "webhook:inbox")

		w.webhook("e2", strings.Replace(document("web", ""), "{name: web}", `{name: web, annotations: {delete: "true"}}`, 1),
			resources.ApplyRule{Kinds: []string{"VM"}, Delete: true})
		rig.Settle(t, 10*time.Second)

		require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
		require.Equal(t, resources.OutcomeCreated, w.result("a.yaml").Objects[0].Outcome)
	})
}

func TestAnObjectThatIsStillBeingTornDownIsMadeAfterwards(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", ""), "x.yaml": document("x", "")})
		uid := resources.UIDOf(w.vm("web").Metadata())
		w.hold("web")
		w.scan(map[string]string{"a.yaml": ""})
		w.scan(map[string]string{"a.yaml": document("web", "")})
		require.Equal(t, resource.PhaseTearingDown, w.vm("web").Metadata().Phase())

		w.letGo("web")
		w.settle()
		require.NotNil(t, w.vm("web"))
		require.NotEqual(t, uid, resources.UIDOf(w.vm("web").Metadata()))
		require.Equal(t, resources.OutcomeCreated, w.result("a.yaml").Objects[0].Outcome)
	})
}

func TestCaseV3S22AHalfWrittenFileLeavesTheLastGoodVersion(t *testing.T) {
	for name, content := range map[string]string{
		"cut off where it is still YAML": "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata:\n  name: web\nspec:\n  disks:\n    - name: root\n    - ",
		"cut off within a word":          "apiVersion: gateway/v1alpha1\nkind: VM\nmeta",
		"one of two is wrong":            document("other", "") + document("web", "cpus: 0"),
		"no YAML":                        "{",
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})
				w.scan(map[string]string{"a.yaml": content})

				require.Equal(t, []string{"web"}, w.vms())
				require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
				require.Equal(t, resource.PhaseRunning, w.vm("web").Metadata().Phase())
				require.Contains(t, w.result("a.yaml").Error, w.path("a.yaml")+":")
				require.Len(t, w.result("a.yaml").Objects, 1)

				w.scan(map[string]string{"a.yaml": document("web", "cpus: 3")})
				require.Equal(t, 3, w.vm("web").TypedSpec().CPUs)
				require.Empty(t, w.result("a.yaml").Error)
			})
		})
	}
}

func TestCaseS29TheSameBytesChangeNothing(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})
		version := w.vm("web").Metadata().Version()
		entries := len(w.entries("revision"))

		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})
		require.Equal(t, version, w.vm("web").Metadata().Version())
		require.Len(t, w.entries("revision"), entries)
		require.Equal(t, uint64(2), w.result("a.yaml").Sequence, "the sweep waits for it")
	})
}

func TestAFileThatIsNotTheOneOfItsEventWaits(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 1")})

		// The event of a version comes while the next one is there already.
		require.NoError(t, os.WriteFile(w.path("a.yaml"), []byte(document("web", "cpus: 9")), 0o600))
		w.tell(w.path("a.yaml"), []byte(document("web", "cpus: 2")))
		w.settle()
		require.Equal(t, 1, w.vm("web").TypedSpec().CPUs)

		w.tell(w.path("a.yaml"), []byte(document("web", "cpus: 9")))
		w.settle()
		require.Equal(t, 9, w.vm("web").TypedSpec().CPUs)
	})
}

func TestCaseV4AThousandFilesAtOnce(t *testing.T) {
	run(t, func(w *world) {
		files := map[string]string{}
		for i := range 1000 {
			files[fmt.Sprintf("vm-%d.yaml", i)] = document(fmt.Sprintf("vm-%d", i), "")
		}

		w.scan(files)
		require.Len(t, w.vms(), 1000)
	})
}

func TestCaseV9AStaleRevisionIsRefusedWithTheCurrentOne(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 1")})
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})

		stale := strings.Replace(document("web", "cpus: 3"), "{name: web}", "{name: web, revision: 1}", 1)
		w.scan(map[string]string{"a.yaml": stale})

		require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)

		object := w.result("a.yaml").Objects[0]
		require.Equal(t, resources.OutcomeRefused, object.Outcome)
		require.Contains(t, object.Message, "the current one is 2")
	})
}

func TestARestartRepeatsOnlyWhatWasRefused(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2"), "b.yaml": document("db", "")})

		// Deleted by force: it stays away until its file changes.
		_, err := w.st.Teardown(t.Context(), resources.NewVMConfig("web").Metadata())
		require.NoError(t, err)
		w.settle()
		w.stop()
		w.start()
		w.settle()
		require.Equal(t, []string{"db"}, w.vms())

		w.scan(map[string]string{"a.yaml": document("web", "cpus: 3")})
		require.Equal(t, []string{"db", "web"}, w.vms())
	})
}
