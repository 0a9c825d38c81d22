package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refuses starts the gateway, and requires that it ends with one line that says all of this.
func (g *gateway) refuses(says ...string) {
	g.t.Helper()
	g.launch()
	require.Equal(g.t, 1, g.exitCode(patience), "the exit code of a start that is refused: %s", g.log.tail(20))

	var errors []string

	for line := range strings.Lines(g.log.String()) {
		if strings.HasPrefix(line, "gateway: ") {
			errors = append(errors, line)
		}
	}

	require.Len(g.t, errors, 1, "%s", g.log)

	for _, text := range says {
		require.Contains(g.t, errors[0], text)
	}
}

// finds requires that `gateway store check` finds something, and says all of this.
func (g *gateway) finds(says ...string) {
	g.t.Helper()

	out, errs, code := g.store("check")
	require.Equal(g.t, 1, code, "gateway store check: %s%s", out, errs)

	for _, text := range says {
		require.Contains(g.t, errs, text)
	}
}

// damage overwrites a part of a file of the data directory.
func (g *gateway) damage(name string, at int64, with []byte) {
	g.t.Helper()

	f, err := os.OpenFile(filepath.Join(g.path("data"), name), os.O_WRONLY, 0)
	require.NoError(g.t, err)

	_, err = f.WriteAt(with, at)
	require.NoError(g.t, err)
	require.NoError(g.t, f.Close())
}

// drop removes files of the data directory.
func (g *gateway) drop(names ...string) {
	g.t.Helper()

	for _, name := range names {
		require.NoError(g.t, os.RemoveAll(filepath.Join(g.path("data"), name)))
	}
}

// newestLog is the file of the log that was written last, as long as no checkpoint is under way.
func (g *gateway) newestLog() string {
	g.t.Helper()

	a, err := os.Stat(filepath.Join(g.path("data"), "store.log.0"))
	require.NoError(g.t, err)

	b, err := os.Stat(filepath.Join(g.path("data"), "store.log.1"))
	require.NoError(g.t, err)

	if a.ModTime().After(b.ModTime()) {
		return a.Name()
	}

	return b.Name()
}

// TestDamagedStore damages what a gateway that was killed left, in each way that is known, and walks the way back that the messages
// name. Whatever it is: nothing of the VMs on the hypervisor is touched.
func TestDamagedStore(t *testing.T) {
	t.Parallel() // it mostly waits

	restore := func(f *farm) { f.mustStore("restore", "--force", f.path("backup")) }
	repair := func(f *farm) { f.mustStore("check", "--repair") }

	for name, test := range map[string]struct {
		damage func(f *farm)
		// says is what the refused start says, finds what the check does; back is the way back.
		says, finds []string
		back        func(f *farm)
	}{
		"pages of store.db are overwritten": {
			damage: func(f *farm) { f.damage("store.db", 8192, bytes.Repeat([]byte{0x5a}, 64<<10)) },
			says:   []string{"store.db", "is damaged", "gateway store check", "gateway store restore"},
			finds:  []string{"store.db", "is damaged", "gateway store restore --force FILE"},
			back:   restore,
		},
		"store.db is cut off": {
			damage: func(f *farm) { require.NoError(t, os.Truncate(filepath.Join(f.path("data"), "store.db"), 12<<10)) },
			says:   []string{"store.db", "is damaged"},
			finds:  []string{"store.db", "is damaged"},
			back:   restore,
		},
		"store.db is gone": {
			damage: func(f *farm) { f.drop("store.db") },
			says:   []string{"store.db is missing", "gateway store restore FILE"},
			finds:  []string{"the store is missing"},
			back:   restore,
		},
		"a record in the middle of the log is overwritten": {
			damage: func(f *farm) { f.damage(f.newestLog(), 4096+200, []byte("damage")) },
			says:   []string{"store.log.", "is damaged", "gateway store check"},
			finds:  []string{"can't be read, from byte", "acknowledged and lost behind it:", "gateway store check --repair"},
			back:   repair,
		},
		"a record in the middle of the log is overwritten, and there is a backup": {
			damage: func(f *farm) { f.damage(f.newestLog(), 4096+200, []byte("damage")) },
			says:   []string{"is damaged"},
			finds:  []string{"acknowledged and lost behind it:"},
			back:   restore,
		},
		"the log is gone": {
			damage: func(f *farm) { f.drop("store.log.0", "store.log.1") },
			says:   []string{"its log is missing", "gateway store check"},
			finds:  []string{"store.log.0", "gateway store check --repair"},
			back:   repair,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, "")
			f.vm("one")
			f.vm("two")
			f.start()
			f.running("one", "two")
			f.mustStore("backup", f.path("backup"))
			f.written()
			f.kill()

			before := f.done(t)

			test.damage(f)
			f.finds(test.finds...)
			f.refuses(test.says...)
			test.back(f)
			f.mustStore("check")
			f.start()
			f.running("one", "two")
			f.works()
			f.untouched(t, before)
			f.stop()
		})
	}
}

// written has the gateway write a few records that are only in the log: a backup has just brought everything into store.db.
func (g *gateway) written() {
	g.t.Helper()
	g.routed(g.t, "deploy")

	for i := range 10 {
		id := fmt.Sprintf("written-%d", i)
		require.Equal(g.t, 202, g.deliver(g.t, "deploy", delivery{id: id, body: `{"n": 1}`, secret: githubSecret}).Code)
	}
}

// TestLostID has a gateway whose file with the id is gone: the store has it, too.
func TestLostID(t *testing.T) {
	t.Parallel() // it mostly waits

	f := newFarm(t, "")
	f.vm("one")
	f.start()
	f.running("one")
	f.kill()

	id, err := os.ReadFile(filepath.Join(f.path("data"), "id"))
	require.NoError(t, err)

	before := f.done(t)

	f.drop("id")
	f.mustStore("check")
	f.start()
	f.running("one")

	again, err := os.ReadFile(filepath.Join(f.path("data"), "id"))
	require.NoError(t, err)
	require.Equal(t, string(id), string(again))
	f.works()
	f.untouched(t, before)
	f.stop()
}

// TestRestoredAfterTheDirectoryWasLost has a gateway that knows nothing any more while the hypervisors have its domains: they are somebody else's for
// it, and it leaves them alone, whatever it is told about VMs of these names. A backup brings everything back.
func TestRestoredAfterTheDirectoryWasLost(t *testing.T) {
	t.Parallel() // it mostly waits

	f := newFarm(t, "")
	f.vm("one")
	f.vm("two")
	f.start()
	f.running("one", "two")
	f.mustStore("backup", f.path("backup"))
	f.stop()

	before := f.done(t)

	require.NoError(t, os.RemoveAll(f.path("data")))

	// The documents of the hosts come last: no VM is placed before they are known.
	require.NoError(t, os.Rename(filepath.Join(f.documents(), "hosts.yaml"), filepath.Join(f.documents(), "zz-hosts.yaml")))
	f.start()

	eventually(t, "both names are taken", func() error {
		for _, name := range []string{"one", "two"} {
			o, err := f.get("VM", name)
			if err != nil {
				return err
			}

			if reason := o.Status.condition("Converged").Reason; reason != "NameTaken" {
				return fmt.Errorf("%s is %s: %+v", name, reason, o.Status)
			}
		}

		return nil
	})

	// Nor is anything removed because a document goes.
	f.remove("two.yaml")
	f.without("two")
	f.works()
	f.untouched(t, before)
	f.stop()

	_, errs, code := f.store("restore", f.path("backup"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "belongs to gateway")

	f.vm("two")
	f.mustStore("restore", "--force", f.path("backup"))
	f.start()
	f.running("one", "two")
	f.works()
	f.untouched(t, before)
	f.stop()
}
