package documents_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

// many are n files with a VM each.
func many(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("vm-%03d.yaml", i)] = document(fmt.Sprintf("vm-%03d", i), "")
	}

	return files
}

// without are the first n of them, removed.
func without(n int) map[string]string {
	files := many(n)
	for name := range files {
		files[name] = ""
	}

	return files
}

func TestCaseS28TenOfAHundredFilesAreDeleted(t *testing.T) {
	run(t, func(w *world) {
		w.scan(many(100))
		w.scan(without(10))
		require.Len(t, w.vms(), 90)
		require.Nil(t, w.guard())
	})
}

func TestCaseS28AnEmptiedRootRemovesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.scan(many(3))
		w.scan(without(3))
		require.Len(t, w.vms(), 3)

		guard := w.guard().TypedSpec()
		require.Equal(t, 3, guard.Count)
		require.Equal(t, 3, guard.Total)
		require.Equal(t, []string{"VM/vm-000", "VM/vm-001", "VM/vm-002"}, guard.Objects)

		// The files come back: nothing is held back any more, and nothing was touched.
		w.scan(many(3))
		require.Len(t, w.vms(), 3)
		require.Nil(t, w.guard())
	})
}

func TestCaseS28AnUnavailableRootRemovesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.scan(many(20))
		w.root(func(r *resources.FileRootSpec) { r.Available, r.Reason = false, resources.ReasonUnreadable })
		w.stop()
		w.start()
		w.settle()
		require.Len(t, w.vms(), 20)
	})
}

func TestARootThatIsNoLongerConfiguredRemovesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.scan(many(2))

		for _, r := range rig.List(t, w.st, resources.NewFileEvent("").Metadata()) {
			_, err := w.st.Teardown(t.Context(), r.Metadata(), ownedByFiles)
			require.NoError(t, err)
		}

		require.NoError(t, w.st.Destroy(t.Context(), resources.NewFileRoot(resources.FileID(w.dir)).Metadata(), destroyByFiles))
		w.settle()
		require.Len(t, w.vms(), 2)
	})
}

func TestAHalfToldScanRemovesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", ""), "x.yaml": document("x", "")})
		w.root(func(r *resources.FileRootSpec) { r.Begun++ })
		w.tell(w.path("a.yaml"), []byte("not what is there"))
		w.settle()
		require.Len(t, w.vms(), 2)

		w.root(func(r *resources.FileRootSpec) { r.Completed = r.Begun })
		w.settle()
		require.Len(t, w.vms(), 2, "a file of the scan is not handled")
	})
}

func TestAMassDeletionWaitsForItsConfirmation(t *testing.T) {
	run(t, func(w *world) {
		w.scan(many(40))
		w.scan(without(11)) // more than ten, and more than a quarter
		require.Len(t, w.vms(), 40)
		require.Len(t, w.entries(store.ClassRefused), 1, "noted once")

		first := w.guard().TypedSpec().Digest

		// Another one is deleted: what was looked at is no longer what would go.
		rest := map[string]string{"vm-011.yaml": ""}
		w.scan(rest)
		require.NotEqual(t, first, w.guard().TypedSpec().Digest)

		w.confirm("c1", first)
		require.Len(t, w.vms(), 40)
		require.Contains(t, w.entries(store.ClassDead)[0].Message, "confirm again")

		w.confirm("c2", w.guard().TypedSpec().Digest)
		require.Len(t, w.vms(), 28)
		require.Nil(t, w.guard())

		rig.Settle(t, 10*time.Second)
		require.Empty(t, rig.List(t, w.st, resources.NewAction("").Metadata()), "actions are taken away")
	})
}

func TestAnInterruptedMassDeletionStaysConfirmed(t *testing.T) {
	for name, restart := range map[string]bool{"by an error": false, "by a restart": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.scan(many(40))
				w.scan(without(15))
				require.Len(t, w.vms(), 40)

				w.stop()
				w.journal = &failing{Journal: w.store.Journal(), at: 3} // within the removal
				w.start()
				w.settle()

				digest := w.guard().TypedSpec().Digest
				a := resources.NewAction("c1")
				*a.TypedSpec() = resources.ActionSpec{Verb: resources.ActionConfirm, Subject: w.dir, By: "api", Body: resources.JSON(`{"digest":"` + digest + `"}`)}
				a.Metadata().Finalizers().Add(a.TypedSpec().Finalizer())
				require.NoError(t, w.st.Create(t.Context(), a))
				rig.Settle(t, 10*time.Millisecond)
				require.Len(t, w.vms(), 37, "it stopped halfway")

				if restart {
					w.stop()
					w.start()
				}

				rig.Settle(t, 10*time.Second)
				require.Len(t, w.vms(), 25)
				require.Nil(t, w.guard())
				require.Empty(t, w.entries(store.ClassDead))
			})
		})
	}
}

func TestMovingADocumentChangesNothing(t *testing.T) {
	for name, scan := range map[string]map[string]string{
		"into a new file":                 {"a.yaml": document("x", ""), "b.yaml": document("web", "cpus: 2")},
		"into a file that comes before":   {"a.yaml": document("x", ""), "0.yaml": document("web", "cpus: 2")},
		"with the file, which is renamed": {"a.yaml": "", "b.yaml": document("web", "cpus: 2") + document("x", "")},
		"into another file, among others": {"a.yaml": "", "b.yaml": document("web", "cpus: 2"), "c.yaml": document("x", "")},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.scan(map[string]string{"a.yaml": document("web", "cpus: 2") + document("x", ""), "z.yaml": document("z", "")})
				before := w.vm("web")
				w.scan(scan)

				after := w.vm("web")
				require.Equal(t, resource.PhaseRunning, after.Metadata().Phase())
				require.Equal(t, resources.UIDOf(before.Metadata()), resources.UIDOf(after.Metadata()))
				require.Equal(t, resources.RevisionOf(before.Metadata()), resources.RevisionOf(after.Metadata()))
				require.NotEqual(t, resources.OriginOf(before.Metadata()), resources.OriginOf(after.Metadata()))
				require.Len(t, w.vms(), 3)

				for _, e := range w.entries(store.ClassRevision) {
					require.NotEqual(t, resources.OutcomeDeleted, e.Reason)
				}
			})
		})
	}
}

func TestCaseV83AProtectedVMStaysWhenItsFileGoes(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "protect: true"), "x.yaml": document("x", "")})
		w.scan(map[string]string{"a.yaml": ""})

		require.Equal(t, resource.PhaseRunning, w.vm("web").Metadata().Phase())
		require.Contains(t, w.entries(store.ClassRefused)[0].Message, "spec.protect")
	})
}

// failing is a journal that fails once, at its n-th entry: as good a point as any for the process to stop.
type failing struct {
	store.Journal

	at int64
	n  atomic.Int64
}

func (f *failing) Append(e store.Entry) error {
	if f.n.Add(1) == f.at {
		return errors.New("stopped")
	}

	return f.Journal.Append(e)
}

func TestAFailureAtAnyPointIsMadeGood(t *testing.T) {
	for at := int64(1); at <= 8; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			run(t, func(w *world) {
				w.stop()
				w.journal = &failing{Journal: w.store.Journal(), at: at}
				w.start()

				w.scan(map[string]string{"a.yaml": document("web", "cpus: 2") + document("db", ""), "x.yaml": document("x", "")})
				rig.Settle(t, 10*time.Second)

				uid := resources.UIDOf(w.vm("web").Metadata())
				w.scan(map[string]string{"a.yaml": document("db", ""), "b.yaml": document("web", "cpus: 3")})
				rig.Settle(t, 10*time.Second)
				w.scan(map[string]string{"a.yaml": ""})
				rig.Settle(t, 10*time.Second)

				require.Equal(t, []string{"web", "x"}, w.vms())
				require.Equal(t, uid, resources.UIDOf(w.vm("web").Metadata()))
				require.Equal(t, 3, w.vm("web").TypedSpec().CPUs)
				require.Equal(t, int64(2), resources.RevisionOf(w.vm("web").Metadata()))
				require.False(t, strings.Contains(w.result("b.yaml").Objects[0].Message, "can't"))
			})
		})
	}
}

func TestADocumentInUseThatIsTakenAwayByMistakeIsPutBackAtOnce(t *testing.T) {
	run(t, func(w *world) {
		const host = "apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec: {uri: \"sim://a\"}\n"

		ptr := resources.NewHost("a").Metadata()
		files := map[string]string{"host.yaml": host, "web.yaml": document("web", "")}
		w.scan(files)
		require.NoError(w, w.st.AddFinalizer(w.Context(), ptr, resources.ControllerPlacement))

		for _, back := range []string{"host.yaml", "elsewhere.yaml"} {
			uid := resources.UIDOf(rig.Get[*resources.Host](w.T, w.st, ptr).Metadata())

			w.scan(map[string]string{"host.yaml": ""})
			require.True(w, resources.IsLeaving(rig.Get[*resources.Host](w.T, w.st, ptr).Metadata()))
			w.scan(map[string]string{"web.yaml": document("web", "")}) // a further scan takes it for no new deletion
			require.Nil(w, w.guard())

			w.scan(map[string]string{back: host})

			now := rig.Get[*resources.Host](w.T, w.st, ptr)
			require.False(w, resources.IsLeaving(now.Metadata()))
			require.Equal(w, uid, resources.UIDOf(now.Metadata()))
			require.Equal(w, w.path(back), resources.OriginOf(now.Metadata()).Name)
			require.Equal(w, resources.OutcomeUpdated, w.result(back).Objects[0].Outcome)
		}
	})
}
