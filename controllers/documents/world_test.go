package documents_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gateway/config"
	"gateway/controllers/documents"
	"gateway/controllers/retention"
	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

// world is a store with the documents controller running over it, and a documents directory whose files the test writes
// and tells of as the file source does.
type world struct {
	*testing.T
	store    store.Store
	st       state.State
	journal  store.Journal
	stop     func()
	dir      string
	sequence map[string]uint64
}

// noPacer never waits: the queue's length is a global of the process, which other bubbles write too.
type noPacer struct{}

func (noPacer) Wait(ctx context.Context) error { return ctx.Err() }

// run runs the test in a bubble of virtual time.
func run(t *testing.T, test func(w *world)) {
	t.Helper()

	dir := t.TempDir()

	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory("test")
		w := &world{T: t, store: s, st: s.State(), journal: s.Journal(), dir: dir, sequence: map[string]uint64{}}
		w.start()
		test(w)
		w.stop()
	})
}

func (w *world) start() {
	w.Helper()
	w.startWith(noPacer{})
}

// startWith starts a controller that knows of documents directories.
func (w *world) startWith(pacer documents.Pacer, roots ...string) *documents.Controller {
	w.Helper()

	policy := config.Default().Policy
	c := documents.New(documents.Options{
		Admission: store.NewAdmission(&policy, w.journal), Journal: w.journal, Pacer: pacer, Roots: roots,
		Deletions: config.Default().Deletions, Registry: prometheus.NewRegistry(),
	})
	w.stop = rig.Run(w.T, w.st, c, retention.New(retention.Options{Pacer: noPacer{}}))

	return c
}

func (w *world) settle() { rig.Settle(w.T, 2*time.Second) }

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// write writes files and tells of them in one scan. An empty content removes the file.
func (w *world) scan(files map[string]string) {
	w.Helper()
	w.root(func(r *resources.FileRootSpec) { r.Begun++ })

	var removed []resource.Pointer

	for _, name := range resources.SortedKeys(files) {
		path := w.path(name)
		ptr := resources.NewFileEvent(resources.FileID(path)).Metadata()

		if content := files[name]; content != "" {
			require.NoError(w, os.WriteFile(path, []byte(content), 0o600))
			w.tell(path, []byte(content))

			continue
		}

		require.NoError(w, os.Remove(path))

		_, err := w.st.Teardown(w.Context(), ptr, state.WithTeardownOwner(resources.SourceFiles))
		require.NoError(w, err)

		removed = append(removed, ptr)
	}

	w.root(func(r *resources.FileRootSpec) {
		r.Completed, r.Available = r.Begun, true

		entries, err := os.ReadDir(w.dir)
		require.NoError(w, err)

		r.Emptied = len(entries) == 0
	})
	w.settle()

	for _, ptr := range removed {
		require.NoError(w, w.st.Destroy(w.Context(), ptr, state.WithDestroyOwner(resources.SourceFiles)))
	}

	w.settle()
}

// tell writes the event of a file.
func (w *world) tell(path string, content []byte) {
	w.Helper()

	w.sequence[path]++

	_, err := w.st.ModifyWithResult(w.Context(), resources.NewFileEvent(resources.FileID(path)), func(r resource.Resource) error {
		spec := r.Spec().(*resources.FileEventSpec)
		spec.Path, spec.Root, spec.Digest, spec.Bytes = path, w.dir, resources.Digest(content), int64(len(content))
		spec.Event = resources.EventAttributes{
			ID: resources.EventID(path, spec.Digest), Source: resources.SourceFile, Name: path, Sequence: w.sequence[path], Received: time.Now(),
		}

		return nil
	}, state.WithUpdateOwner(resources.SourceFiles))
	require.NoError(w, err)
}

func (w *world) root(change func(*resources.FileRootSpec)) {
	w.Helper()
	w.rootAt(w.dir, change)
}

func (w *world) rootAt(path string, change func(*resources.FileRootSpec)) {
	w.Helper()

	_, err := w.st.ModifyWithResult(w.Context(), resources.NewFileRoot(resources.FileID(path)), func(r resource.Resource) error {
		spec := r.Spec().(*resources.FileRootSpec)
		spec.Path = path
		change(spec)

		return nil
	}, state.WithUpdateOwner(resources.SourceFiles))
	require.NoError(w, err)
}

func (w *world) vm(name string) *resources.VMConfig {
	w.Helper()

	return rig.Get[*resources.VMConfig](w.T, w.st, resources.NewVMConfig(name).Metadata())
}

func (w *world) vms() []string {
	w.Helper()

	return w.names(resources.NewVMConfig("").Metadata())
}

func (w *world) hosts() []string {
	w.Helper()

	return w.names(resources.NewHost("").Metadata())
}

func (w *world) names(kind resource.Kind) []string {
	w.Helper()

	var names []string
	for _, r := range rig.List(w.T, w.st, kind) {
		names = append(names, r.Metadata().ID())
	}

	return names
}

func (w *world) result(name string) *resources.ApplyResultSpec {
	w.Helper()

	result := rig.Get[*resources.ApplyResult](w.T, w.st, resources.NewApplyResult(resources.FileID(w.path(name))).Metadata())
	require.NotNil(w, result, "no result of %s", name)

	return result.TypedSpec()
}

func (w *world) guard() *resources.DeletionGuard {
	w.Helper()

	return rig.Get[*resources.DeletionGuard](w.T, w.st, resources.NewDeletionGuard(resources.FileID(w.dir)).Metadata())
}

func (w *world) confirm(id, digest string) {
	w.Helper()

	a := resources.NewAction(id)
	*a.TypedSpec() = resources.ActionSpec{Verb: resources.ActionConfirm, Subject: w.dir, By: "api", Body: resources.JSON(`{"digest":"` + digest + `"}`)}
	w.act(a)
}

// act creates an action as a trigger or the API does.
func (w *world) act(a *resources.Action) {
	w.Helper()

	a.Metadata().Finalizers().Add(a.TypedSpec().Finalizer())
	require.NoError(w, w.st.Create(w.Context(), a, state.WithCreateOwner(resources.ControllerTrigger)))
	w.settle()
}

// deliver takes a delivery in, as the source does.
func (w *world) deliver(id, data string, rule resources.ApplyRule) *resources.WebhookEvent {
	w.Helper()

	e := resources.NewWebhookEvent(id)
	spec := e.TypedSpec()
	spec.Event = resources.EventAttributes{
		ID: id, Source: resources.SourceWebhook, Name: "inbox", DeliveryID: "delivery-" + id, Received: time.Now(), Sequence: 1,
	}
	spec.Data, spec.Apply = []byte(data), &rule

	e.Metadata().Finalizers().Add(resources.FinalizerDocuments)
	require.NoError(w, w.st.Create(w.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))
	w.settle()

	return e
}

// webhook takes a delivery in and returns what became of it.
func (w *world) webhook(id, data string, rule resources.ApplyRule) *resources.ApplyResultSpec {
	w.Helper()

	e := w.deliver(id, data, rule)
	event := rig.Get[*resources.WebhookEvent](w.T, w.st, e.Metadata())
	require.NotNil(w, event)
	require.True(w, event.Metadata().Finalizers().Empty(), "the event is processed")

	result := rig.Get[*resources.ApplyResult](w.T, w.st, resources.NewApplyResult(id).Metadata())
	require.NotNil(w, result)

	return result.TypedSpec()
}

func (w *world) entries(class store.Class) []store.Entry {
	w.Helper()

	entries, err := w.journal.Query(w.Context(), store.Query{Classes: []store.Class{class}})
	require.NoError(w, err)

	return entries
}

// hold keeps an object in teardown, as the controllers of the chain do.
func (w *world) hold(name string) {
	w.Helper()
	require.NoError(w, w.st.AddFinalizer(w.Context(), resources.NewVMConfig(name).Metadata(), "placement"))
}

func (w *world) letGo(name string) {
	w.Helper()
	require.NoError(w, w.st.RemoveFinalizer(w.Context(), resources.NewVMConfig(name).Metadata(), "placement"))
}

// leave begins the teardown of an object that is held.
func (w *world) leave(name string) {
	w.Helper()
	w.hold(name)

	_, err := w.st.Teardown(w.Context(), resources.NewVMConfig(name).Metadata())
	require.NoError(w, err)
}

// document is a VM's document.
func document(name, spec string) string {
	return "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n---\n"
}

// ownedByFiles and destroyByFiles act as the file source.
var (
	ownedByFiles   = state.WithTeardownOwner(resources.SourceFiles)
	destroyByFiles = state.WithDestroyOwner(resources.SourceFiles)
)

var createdByDocuments = state.WithCreateOwner(resources.ControllerDocuments)
