package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

// losses is how often the power is lost.
const losses = 50

// instantCopies are files that can be copied in one instant, while they are written.
var instantCopies = part{"btrfs, whose files can be copied in one instant", func() error {
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		return err
	}

	known, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(known), "btrfs") {
		err = errors.New("the kernel does not know it")
	}

	return err
}}

// acknowledged is what the gateway has said to have.
type acknowledged struct {
	mu sync.Mutex // guards the following
	// events by delivery, and VMs that were applied.
	events map[string]string
	vms    []string
	sent   int
}

// next is a number that was not used yet.
func (a *acknowledged) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.sent++

	return a.sent
}

func (a *acknowledged) copy() (events map[string]string, vms []string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	return maps.Clone(a.events), append(vms, a.vms...)
}

// load sends deliveries, from four senders, and applies documents, until ctx ends.
func (a *acknowledged) load(ctx context.Context, g *gateway) (wait func()) {
	var senders sync.WaitGroup

	body := `{"pad": "` + strings.Repeat("x", 8<<10) + `"}`

	for range 4 {
		senders.Go(func() {
			for ctx.Err() == nil {
				id := fmt.Sprintf("d-%d", a.next())

				answer, err := post(ctx, g.http, "deploy", delivery{id: id, body: body, secret: githubSecret})
				if err == nil && answer.Code == 202 {
					a.mu.Lock()
					a.events[id] = answer.ID
					a.mu.Unlock()
				}
			}
		})
	}

	senders.Go(func() {
		for ctx.Err() == nil {
			name := fmt.Sprintf("applied-%d", a.next())
			g.write("../applied.yaml", document("VM", name, "{memory: 64MiB, power: stopped}"))

			if _, _, code := g.run("apply", "-f", g.path("applied.yaml")); code == 0 {
				a.mu.Lock()
				a.vms = append(a.vms, name)
				a.mu.Unlock()
			}
		}
	})

	return senders.Wait
}

// TestPowerLoss copies the blocks of the disk while a gateway takes in deliveries and documents and writes, 50 times, each copy at one
// instant: what a power loss leaves. Each is put right by the file system alone, and opened: nothing is missing that was acknowledged
// before the copy began, and nothing is damaged.
func TestPowerLoss(t *testing.T) {
	need(t, loopDisks, instantCopies)

	pool := newPool(t)
	d := newDisk(t, filepath.Join(pool, "disk"), 1024)
	g := newGateway(t, "nats: {embedded: {listen: 127.0.0.1:0}}")
	d.holds(g)
	g.write("host.yaml", documents(document("Host", "a", `{uri: "sim://a", capacity: {cpus: 10000, memory: 10TiB}}`),
		g.githubHook("deploy", ", limits: {rate: 10000/s, concurrency: 64}")))
	g.start()
	g.routed(t, "deploy")

	random, said := seed(t), &acknowledged{events: map[string]string{}}
	after := &disk{t: t, image: filepath.Join(pool, "copy"), dir: filepath.Join(pool, "after")}

	for range losses {
		// In the middle of the load, which ends while the copy is looked at.
		ctx, stop := context.WithCancel(t.Context())
		wait := said.load(ctx, g)

		pause(t, 20*time.Millisecond+time.Duration(random.Int64N(int64(200*time.Millisecond))))

		events, vms := said.copy()
		require.NoError(t, command("cp", "--reflink=always", d.image, after.image))
		stop()
		wait()
		after.verify(random, g, events, vms)
	}

	events, vms := said.copy()
	require.NotEmpty(t, events)
	require.NotEmpty(t, vms)
	t.Logf("%d losses of power, %d deliveries and %d documents acknowledged at the last one", losses, len(events), len(vms))
	g.kill()
}

// newPool is a directory whose files can be copied in one instant.
func newPool(t *testing.T) string {
	t.Helper()

	parent := t.TempDir()
	image, dir := filepath.Join(parent, "pool"), filepath.Join(parent, "files")

	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(8<<30)) // it has holes
	require.NoError(t, f.Close())
	require.NoError(t, command("mkfs.btrfs", "-q", image))
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, command("mount", "-o", "loop", image, dir))
	t.Cleanup(func() { unmount(t, dir) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "after"), 0o700))

	return dir
}

// verify opens what a loss of power has left.
func (d *disk) verify(random *rand.Rand, g *gateway, events map[string]string, vms []string) {
	d.t.Helper()

	// The journal of the file system is replayed by mounting it; its own check comes after.
	d.mount()
	defer d.unmount()

	data := filepath.Join(d.dir, "data")

	out, errs, code := g.run("store", "check", "--data-dir", data)
	require.Equal(d.t, 0, code, "gateway store check: %s%s", out, errs)

	s, err := store.Open(d.t.Context(), store.Options{DataDir: data})
	require.NoError(d.t, err)

	for _, name := range vms {
		_, err := s.State().Get(d.t.Context(), resources.NewVMConfig(name).Metadata())
		require.False(d.t, state.IsNotFoundError(err), "%s was applied", name)
		require.NoError(d.t, err)
	}

	for id, event := range events {
		seen, ok := s.Journal().Seen("webhook", "deploy", id)
		require.True(d.t, ok, "delivery %s was answered with 202", id)
		require.Equal(d.t, event, seen)
	}

	require.NoError(d.t, s.Close())

	// Once in a while the whole program is started on it.
	if random.IntN(10) == 0 {
		d.starts(g, data, len(events))
	}

	d.unmount()
	require.NoError(d.t, command("e2fsck", "-fn", d.image))
}

// starts runs a gateway on a copy.
func (d *disk) starts(g *gateway, data string, events int) {
	d.t.Helper()

	second := &gateway{t: d.t, dir: filepath.Join(d.dir, "second"), images: g.images}
	require.NoError(d.t, os.MkdirAll(second.documents(), 0o755))
	require.NoError(d.t, os.MkdirAll(second.path("secrets"), 0o700))

	if _, err := os.Lstat(second.path("data")); err != nil {
		require.NoError(d.t, os.Symlink(data, second.path("data")))
	}

	second.start()
	second.readiness(200, "")
	require.Equal(d.t, min(events, 1), min(len(second.events("webhook")), 1))
	second.stop()
}
