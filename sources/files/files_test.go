package files_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/files"
	"gateway/sources/intake/intaketest"
)

const settle = files.DefaultSettle

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// reader stands for controllers/documents: it lets go of the events of vanished files.
type reader struct{}

func (reader) Name() string { return resources.ControllerDocuments }

func (reader) Inputs() []controller.Input {
	return []controller.Input{{Namespace: resources.NamespaceEvents, Type: resources.FileEventType, Kind: controller.InputStrong}}
}

func (reader) Outputs() []controller.Output { return nil }

func (reader) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
		}

		list, err := safe.ReaderListAll[*resources.FileEvent](ctx, r)
		if err != nil {
			return err
		}

		for event := range list.All() {
			if event.Metadata().Phase() == resource.PhaseTearingDown {
				if err := r.RemoveFinalizer(ctx, event.Metadata(), resources.FinalizerDocuments); err != nil {
					return err
				}
			}
		}
	}
}

// world is a source on a directory, and what it said of each file: a digest for each version, "gone".
type world struct {
	*testing.T

	root    string
	state   state.State
	journal *intaketest.Journal
	stop    func()

	mu    sync.Mutex // guards said and roots
	said  map[string][]string
	roots []resources.FileRootSpec
}

// newWorld makes the test run beside others: they mostly wait.
func newWorld(t *testing.T, root string) *world {
	t.Helper()
	t.Parallel()

	w := &world{T: t, root: root, state: intaketest.NewState(), journal: &intaketest.Journal{}, said: map[string][]string{}}

	events := make(chan state.Event)
	require.NoError(t, w.state.WatchKind(t.Context(), resources.NewFileEvent("").Metadata(), events))
	require.NoError(t, w.state.WatchKind(t.Context(), resources.NewFileRoot("").Metadata(), events))

	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case event := <-events:
				w.hear(event)
			}
		}
	}()

	return w
}

func (w *world) hear(event state.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch res := event.Resource.(type) {
	case *resources.FileRoot:
		w.roots = append(w.roots, *res.TypedSpec())
	case *resources.FileEvent:
		path, err := filepath.Rel(w.root, res.TypedSpec().Path)
		if err != nil {
			panic(err)
		}

		what := res.TypedSpec().Digest
		if event.Type == state.Destroyed {
			what = "gone"
		}

		if said := w.said[path]; len(said) == 0 || said[len(said)-1] != what {
			w.said[path] = append(said, what)
		}
	}
}

// start runs the source; each change of its options is one function.
func (w *world) start(change ...func(*files.Options)) {
	w.Helper()

	options := files.Options{Roots: []string{w.root}, Settle: settle, Rescan: time.Minute, Poll: 100 * time.Millisecond, Journal: w.journal}
	for _, f := range change {
		f(&options)
	}

	source, err := files.New(options)
	require.NoError(w, err)

	w.stop = intaketest.Run(w.T, w.state, source, reader{})
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) write(name, content string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) remove(name string) {
	w.Helper()
	require.NoError(w, os.Remove(w.path(name)))
}

// history is what was said of a file.
func (w *world) history(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return slices.Clone(w.said[name])
}

// hears waits until exactly this was said of a file: contents of its versions, "gone" for its end.
func (w *world) hears(name string, contents ...string) {
	w.Helper()

	want := []string{}

	for _, content := range contents {
		if content != "gone" {
			content = resources.Digest([]byte(content))
		}

		want = append(want, content)
	}

	require.EventuallyWithT(w, func(c *assert.CollectT) { require.Equal(c, want, w.history(name)) }, patience, 10*time.Millisecond)
}

// rootSpec returns the root's state.
func (w *world) rootSpec() resources.FileRootSpec {
	w.Helper()

	res, err := safe.StateGetByID[*resources.FileRoot](w.Context(), w.state, resources.FileID(w.root))
	if state.IsNotFoundError(err) {
		return resources.FileRootSpec{}
	}

	require.NoError(w, err)

	return *res.TypedSpec()
}

func (w *world) awaitRoot(what string, holds func(resources.FileRootSpec) bool) {
	w.Helper()
	require.Eventually(w, func() bool { return holds(w.rootSpec()) }, patience, 10*time.Millisecond, what)
}

// settles waits until this many files were reported and nothing is on its way.
func (w *world) settles(count int) {
	w.Helper()
	intaketest.Progress(w.T, "files", func() (int, bool) {
		list, err := w.state.List(w.Context(), resources.NewFileEvent("").Metadata())
		require.NoError(w, err)

		r := w.rootSpec()

		return len(list.Items) + int(r.Begun) + int(r.Completed), len(list.Items) == count && r.Files == count && r.Completed == r.Begun
	})
}

// status returns what is known of a file, nil when nothing is.
func (w *world) status(name string) *resources.FileStatusSpec {
	w.Helper()

	res, err := safe.StateGetByID[*resources.FileStatus](w.Context(), w.state, resources.FileID(w.path(name)))
	if state.IsNotFoundError(err) {
		return nil
	}

	require.NoError(w, err)

	return res.TypedSpec()
}

// quiet waits until a change that was made after all others was reported: nothing of those before it is still on its way.
func (w *world) quiet() {
	w.Helper()

	name := fmt.Sprintf("quiet-%d.yaml", time.Now().UnixNano())
	w.write(name, "a: 1")
	w.hears(name, "a: 1")
	require.NoError(w, os.Remove(w.path(name)))
	w.hears(name, "a: 1", "gone")
}

// after lets real time pass between two writes of a program that is imitated.
func after(d time.Duration) { <-time.After(d) }

// saves change f.yaml from "version: old" to "version: new" as programs do.
var saves = map[string]func(w *world){
	"vim": func(w *world) {
		w.write("4913", "")
		w.remove("4913")
		require.NoError(w, os.Rename(w.path("f.yaml"), w.path("f.yaml~")))

		file, err := os.Create(w.path("f.yaml"))
		require.NoError(w, err)
		after(20 * time.Millisecond)

		_, err = file.WriteString("version: new")
		require.NoError(w, err)
		require.NoError(w, file.Sync())
		require.NoError(w, file.Close())
		require.NoError(w, os.Chmod(w.path("f.yaml"), 0o600))
		w.remove("f.yaml~")
	},
	"VS Code": func(w *world) {
		file, err := os.OpenFile(w.path("f.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
		require.NoError(w, err)

		for _, letter := range "version: new" {
			after(settle / 10)

			_, err = file.WriteString(string(letter))
			require.NoError(w, err)
		}

		require.NoError(w, file.Close())
	},
	"sed -i": func(w *world) {
		out, err := exec.CommandContext(w.Context(), "sed", "-i", "s/old/new/", w.path("f.yaml")).CombinedOutput()
		require.NoError(w, err, string(out))
	},
	"rsync": func(w *world) {
		w.write(".f.yaml.Ab3dE9", "version: ")
		after(settle)
		w.write(".f.yaml.Ab3dE9", "version: new")

		old := time.Now().Add(-24 * time.Hour)
		require.NoError(w, os.Chtimes(w.path(".f.yaml.Ab3dE9"), old, old))
		require.NoError(w, os.Rename(w.path(".f.yaml.Ab3dE9"), w.path("f.yaml")))
	},
	"git checkout": func(w *world) {
		w.remove("f.yaml")
		w.write("f.yaml", "version: new")
	},
	"scp": func(w *world) {
		w.write("f.yaml", "version: new")
	},
}

func TestCaseS20EditorsAndCopiesAreOneUpdateEach(t *testing.T) {
	for name, save := range saves {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.write("f.yaml", "version: old")
			w.start()
			w.hears("f.yaml", "version: old")

			save(w)
			w.hears("f.yaml", "version: old", "version: new")
			w.quiet()
			w.hears("f.yaml", "version: old", "version: new")
			require.Equal(t, resources.Digest([]byte("version: new")), w.status("f.yaml").Digest)
		})
	}
}

func TestCaseS23AConfigMapSwapIsOneGenerationOnce(t *testing.T) {
	w := newWorld(t, t.TempDir())

	generation := func(name, content string) {
		for _, key := range []string{"a.yaml", "b.yaml", "c.yaml"} {
			w.write(filepath.Join(name, key), content)
		}

		require.NoError(t, os.Symlink(name, w.path("..data_tmp")))
		require.NoError(t, os.Rename(w.path("..data_tmp"), w.path("..data")))
	}

	generation("..2026_01", "generation: 1")

	for _, key := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", key), w.path(key)))
	}

	w.start()

	for _, key := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		w.hears(key, "generation: 1")
	}

	scans := w.rootSpec().Begun

	generation("..2026_02", "generation: 2")
	require.NoError(t, os.RemoveAll(w.path("..2026_01")))

	for _, key := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		w.hears(key, "generation: 1", "generation: 2")
	}

	require.Equal(t, scans+1, w.rootSpec().Begun, "all keys in one scan")
}

func TestCaseS24ManyFilesAtOnceAreAllFound(t *testing.T) {
	count := 30_000
	if testing.Short() {
		count = 2_000
	}

	w := newWorld(t, t.TempDir())
	w.start()
	w.awaitRoot("the empty root is there", func(r resources.FileRootSpec) bool { return r.Available })

	for i := range count {
		w.write(fmt.Sprintf("d%d/f%d.yaml", i%20, i), fmt.Sprintf("number: %d", i))
	}

	w.settles(count)
}

func TestCaseS24EditsThatGiveNoEventAreFoundByTheScan(t *testing.T) {
	outside := t.TempDir()
	w := newWorld(t, t.TempDir())
	w.write("hard.yaml", "a: 1")
	require.NoError(t, os.Link(w.path("hard.yaml"), filepath.Join(outside, "hard")))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "target"), []byte("b: 1"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(outside, "target"), w.path("link.yaml")))

	w.start(func(o *files.Options) { o.Rescan = 300 * time.Millisecond })
	w.hears("hard.yaml", "a: 1")
	w.hears("link.yaml", "b: 1")

	require.NoError(t, os.WriteFile(filepath.Join(outside, "hard"), []byte("a: 2"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "target"), []byte("b: 2"), 0o644))
	w.hears("hard.yaml", "a: 1", "a: 2")
	w.hears("link.yaml", "b: 1", "b: 2")
}

func TestCaseS25AFileThatBecomesUnreadableStaysInForce(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("f.yaml", "a: 1")
	w.start()
	w.hears("f.yaml", "a: 1")

	w.remove("f.yaml")
	require.NoError(t, os.Mkdir(w.path("f.yaml"), 0o755))
	require.Eventually(t, func() bool { return w.status("f.yaml").Error != "" }, patience, 10*time.Millisecond)
	w.quiet()
	w.hears("f.yaml", "a: 1")
	require.Equal(t, resources.Digest([]byte("a: 1")), w.status("f.yaml").Digest)

	w.remove("f.yaml")
	w.write("f.yaml", "a: 2")
	w.hears("f.yaml", "a: 1", "a: 2")
	require.Eventually(t, func() bool { return w.status("f.yaml").Error == "" }, patience, 10*time.Millisecond)
}

func TestCaseS28TenOfAHundredFilesGo(t *testing.T) {
	w := newWorld(t, t.TempDir())
	for i := range 100 {
		w.write(fmt.Sprintf("f%d.yaml", i), "a: 1")
	}

	w.start()
	w.settles(100)

	for i := range 10 {
		w.remove(fmt.Sprintf("f%d.yaml", i))
	}

	for i := range 10 {
		w.hears(fmt.Sprintf("f%d.yaml", i), "a: 1", "gone")
		require.Eventually(t, func() bool { return w.status(fmt.Sprintf("f%d.yaml", i)) == nil }, patience, 10*time.Millisecond)
	}

	w.settles(90)
	w.hears("f50.yaml", "a: 1")
	require.False(t, w.rootSpec().Emptied)
}

func TestCaseS28ARootThatIsMovedAwayTearsNothingDown(t *testing.T) {
	w := newWorld(t, filepath.Join(t.TempDir(), "documents.d"))
	w.write("f.yaml", "a: 1")
	w.start()
	w.hears("f.yaml", "a: 1")

	require.NoError(t, os.Rename(w.root, w.root+".away"))
	w.awaitRoot("it is missed", func(r resources.FileRootSpec) bool { return !r.Available && r.Reason == resources.ReasonWaiting })

	require.NoError(t, os.Rename(w.root+".away", w.root))
	w.awaitRoot("it is found", func(r resources.FileRootSpec) bool { return r.Available })
	w.write("f.yaml", "a: 2")
	w.hears("f.yaml", "a: 1", "a: 2")
}

func TestCaseS28ARootThatIsNotThereYetIsWaitedForAndNotMade(t *testing.T) {
	w := newWorld(t, filepath.Join(t.TempDir(), "documents.d"))
	w.start()
	w.awaitRoot("it is missed", func(r resources.FileRootSpec) bool { return r.Reason == resources.ReasonWaiting })
	require.NoDirExists(t, w.root)

	w.write("f.yaml", "a: 1")
	w.hears("f.yaml", "a: 1")
}

func TestCaseS28ARootThatIsSuddenlyEmptyIsMarked(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("f.yaml", "a: 1")
	w.write("g.yaml", "a: 1")
	w.start()
	w.settles(2)

	w.remove("f.yaml")
	w.remove("g.yaml")
	w.awaitRoot("it is marked", func(r resources.FileRootSpec) bool { return r.Emptied && r.Files == 0 })

	w.write("h.yaml", "a: 1")
	w.awaitRoot("it is not empty any more", func(r resources.FileRootSpec) bool { return !r.Emptied && r.Files == 1 })
}

func TestCaseS28ARootThatIsNoLongerConfiguredTearsNothingDown(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("f.yaml", "a: 1")
	w.start()
	w.hears("f.yaml", "a: 1")
	w.stop()

	w.start(func(o *files.Options) { o.Roots = []string{t.TempDir()} })
	w.awaitRoot("it is not available", func(r resources.FileRootSpec) bool { return !r.Available })
	w.hears("f.yaml", "a: 1")
}

func TestCaseS28NobodySeesAHalfToldScanAsComplete(t *testing.T) {
	w := newWorld(t, t.TempDir())
	for i := range 50 {
		w.write(fmt.Sprintf("f%d.yaml", i), "a: 1")
	}

	w.start()
	told := func(holds func(resources.FileRootSpec) bool) int {
		w.mu.Lock()
		defer w.mu.Unlock()

		return slices.IndexFunc(w.roots, holds)
	}

	isComplete := func(r resources.FileRootSpec) bool { return r.Completed == 1 }
	require.Eventually(t, func() bool { return told(isComplete) >= 0 }, patience, 10*time.Millisecond)

	begun := told(func(r resources.FileRootSpec) bool { return r.Begun == 1 && r.Completed == 0 })
	require.GreaterOrEqual(t, begun, 0, "it begins before the first event is written")
	require.Less(t, begun, told(isComplete))
}

func TestCaseS29TheSameBytesAreNoChange(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.write("f.yaml", "a: 1")
	w.write("g.yaml", "a: 1")
	w.start()
	w.hears("f.yaml", "a: 1")
	w.hears("g.yaml", "a: 1")
	w.write("f.yaml", "a: 1")
	w.quiet()

	sequence := func() uint64 {
		event, err := safe.StateGetByID[*resources.FileEvent](t.Context(), w.state, resources.FileID(w.path("f.yaml")))
		require.NoError(t, err)

		return event.TypedSpec().Event.Sequence
	}

	require.EqualValues(t, 1, sequence())

	w.stop()
	w.write("f.yaml", "a: 1")
	w.write("g.yaml", "a: 2")
	w.start()
	w.hears("g.yaml", "a: 1", "a: 2")
	require.EqualValues(t, 1, sequence(), "a restart reports only what changed meanwhile")
}

func TestCaseS30ANewDirectoryWithFilesIsFoundAsAWhole(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.awaitRoot("it is there", func(r resources.FileRootSpec) bool { return r.Available })

	for i := range 20 {
		w.write(fmt.Sprintf("new/deep/er/f%d.yaml", i), "a: 1")
	}

	for i := range 20 {
		w.hears(fmt.Sprintf("new/deep/er/f%d.yaml", i), "a: 1")
	}

	// Gone and made again under the same name, it is watched again.
	require.NoError(t, os.RemoveAll(w.path("new")))
	w.hears("new/deep/er/f3.yaml", "a: 1", "gone")
	w.write("new/deep/er/f3.yaml", "a: 2")
	w.hears("new/deep/er/f3.yaml", "a: 1", "gone", "a: 2")
	w.write("new/deep/er/f3.yaml", "a: 3")
	w.hears("new/deep/er/f3.yaml", "a: 1", "gone", "a: 2", "a: 3")
}

func TestWithoutInotifyTheSourcePolls(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start(func(o *files.Options) { o.NoWatch = true })
	w.write("f.yaml", "a: 1")
	w.hears("f.yaml", "a: 1")
	w.remove("f.yaml")
	w.write("sub/g.yaml", "a: 1")
	w.hears("sub/g.yaml", "a: 1")
	w.hears("f.yaml", "a: 1", "gone")
}

func TestEveryChangeIsInTheJournal(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.start()
	w.write("keep.yaml", "a: 1")
	w.write("f.yaml", "a: 1")
	w.hears("f.yaml", "a: 1")
	w.hears("keep.yaml", "a: 1")
	w.remove("f.yaml")
	w.hears("f.yaml", "a: 1", "gone")

	messages := map[string]int{}
	for _, entry := range w.journal.Entries() {
		require.Equal(t, resources.SourceFile, entry.Source)
		require.NotEmpty(t, entry.EventID)

		messages[filepath.Base(entry.Name)+" "+entry.Message]++
	}

	require.Equal(t, map[string]int{"keep.yaml ": 1, "f.yaml ": 1, "f.yaml gone": 1}, messages)
}

func TestDocumentDirectoriesAreAbsoluteAndNamedOnce(t *testing.T) {
	t.Chdir(t.TempDir())

	source, err := files.New(files.Options{Roots: []string{"./documents.d", "documents.d", "/etc/gateway"}})
	require.NoError(t, err)

	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(here, "documents.d"), "/etc/gateway"}, source.Roots())

	_, err = files.New(files.Options{Roots: []string{""}})
	require.ErrorContains(t, err, "empty")
}
