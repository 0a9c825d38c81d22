package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onDisk is a farm whose data directory is on a small disk of its own, with two VMs that run.
func onDisk(t *testing.T) (*farm, *disk) {
	t.Helper()

	d := newDisk(t, filepath.Join(t.TempDir(), "disk"), 200) // it is unmounted when the gateway has ended
	f := newFarm(t, "")
	d.holds(f.gateway)
	f.vm("one")
	f.vm("two")
	f.start()
	f.running("one", "two")
	f.routed(t, "deploy")

	return f, d
}

// readiness waits until /readyz has a status, and a text.
func (g *gateway) readiness(code int, says string) {
	g.t.Helper()

	eventually(g.t, fmt.Sprintf("/readyz says %d and %q", code, says), func() error {
		now, body := g.httpGet("/readyz")
		if now != code || !strings.Contains(body, says) {
			return fmt.Errorf("%d %s", now, body)
		}

		return nil
	})
}

// sendUntil posts deliveries until one is answered with a status.
func (l *load) sendUntil(g *gateway, code int) {
	g.t.Helper()

	eventually(g.t, fmt.Sprintf("a delivery is answered %d", code), func() error {
		l.next++
		id := fmt.Sprintf("k-%d", l.next)
		limited, cancel := context.WithTimeout(g.t.Context(), patience)

		defer cancel()

		a, err := post(limited, g.http, "deploy", delivery{id: id, body: `{"pad": "` + strings.Repeat("x", 16<<10) + `"}`, secret: githubSecret})
		if err != nil {
			return err
		}

		if a.Code == http.StatusAccepted {
			l.accepted[id] = a.ID
		}

		if a.Code != code {
			return fmt.Errorf("it is answered %d", a.Code)
		}

		return nil
	})
}

// known requires that all that was acknowledged is in the journal.
func (l *load) known(g *gateway) {
	g.t.Helper()

	have := map[string]bool{}
	for _, e := range g.events("webhook") {
		have[e.EventID] = true
	}

	for id, event := range l.accepted {
		require.True(g.t, have[event], "delivery %s was answered with 202 and event %s", id, event)
	}
}

func newLoad() *load { return &load{accepted: map[string]string{}} }

// TestFullDisk takes all the room on the disk: nothing is acknowledged any more, what is there goes on to be shown, nothing of the VMs is
// touched; with the first free block everything goes on, with or without a restart in between.
func TestFullDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	need(t, loopDisks)

	f, d := onDisk(t)
	l := newLoad()
	l.sendUntil(f.gateway, 202)

	before := f.done(t)

	d.fill()
	l.sendUntil(f.gateway, 503)
	f.readiness(503, "no space left on device")
	require.Contains(t, f.cli("get", "vm"), "running")
	l.known(f.gateway)

	code, _ := f.httpGet("/healthz")
	require.Equal(t, 200, code, "a restart would not help")

	_, errs, code := f.run("apply", "-f", f.aside("three"), "--timeout", "3s")
	require.NotEqual(t, 0, code, "nothing is acknowledged: %s", errs)

	d.release()
	f.readiness(200, "")
	l.sendUntil(f.gateway, 202)
	l.known(f.gateway)
	f.works()
	f.untouched(t, before)

	// The same with a kill while the disk is full.
	d.fill()
	l.sendUntil(f.gateway, 503)
	f.kill()
	f.launch()

	// Whether it starts depends on the last blocks; if not, it says why.
	select {
	case <-f.exited:
		require.Contains(t, f.log.String(), "no space left on device")
	case <-time.After(3 * time.Second):
		f.kill()
	}

	d.release()
	f.goesOn(l, before)
	f.mustStore("check")
}

// aside writes the document of a VM beside those that the gateway reads.
func (g *gateway) aside(name string) string {
	g.t.Helper()
	g.write("../"+name+".yaml", document("VM", name, "{}"))

	return g.path(name + ".yaml")
}

// TestDeadDisk pulls the disk: the gateway says so, does nothing to VMs, and everything that it acknowledged is there when the disk is back.
func TestDeadDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	need(t, loopDisks)

	f, d := onDisk(t)
	l := newLoad()

	for range 20 {
		l.sendUntil(f.gateway, 202)
	}

	before := f.done(t)

	d.die()
	l.sendUntil(f.gateway, 503)
	f.readiness(503, "input/output error")
	f.untouched(t, before)

	// The way back: end it, put the disk right, start it.
	f.kill()
	d.unmount()
	d.mount()
	f.mustStore("check")
	f.goesOn(l, before)
}

// goesOn starts the gateway on a disk that works again: what was acknowledged is known, more is taken in, and nothing was done
// to the hypervisors. It is stopped then.
func (f *farm) goesOn(l *load, before [2]history) {
	f.t.Helper()

	f.start()
	f.running("one", "two")
	f.routed(f.t, "deploy")
	l.known(f.gateway)
	l.sendUntil(f.gateway, 202)
	f.works()
	f.untouched(f.t, before)
	f.stop()
}

// TestReadOnlyDisk starts on a disk that can only be read: one message, and everything goes on when it can be written again.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	need(t, loopDisks)

	f, d := onDisk(t)
	l := newLoad()
	l.sendUntil(f.gateway, 202)
	f.kill()

	before := f.done(t)

	require.NoError(t, command("mount", "-o", "remount,ro", d.dir))
	f.refuses("read-only file system")
	f.mustStore("check")
	f.mustStore("backup", f.path("backup"))

	_, errs, code := f.store("restore", "--force", f.path("backup"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "read-only file system")
	require.NoError(t, command("mount", "-o", "remount,rw", d.dir))
	f.start()
	f.running("one", "two")
	l.known(f.gateway)
	f.works()
	f.untouched(t, before)
	f.stop()
}
