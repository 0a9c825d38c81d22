package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/store"
)

const gatewayID = "home"

// world is everything outside the process, and the process that runs at the moment.
type world struct {
	t     *testing.T
	trace *trace
	rand  *rand.Rand // the scenario's alone
	root  string

	sim  *sim.World
	edge *edge
	disk *store.SimulatedDisk

	process *process
	// down reports whether no process runs at the moment.
	down bool
	// quiet keeps the world from doing anything meanwhile.
	quiet bool
	// thorough has everything checked, also where something is known to be wrong.
	thorough bool
	model    *model

	mu sync.Mutex // guards the following
	// dice are for what happens on goroutines of the gateway.
	dice *rand.Rand
	// commit is how long a transaction takes at most; refuse, how often one fails.
	commit time.Duration
	refuse float64
	// broken404 is how often an image is missing, and how often it is cut off.
	broken404 float64
	broken    []string // invariants that were seen broken
	twice     map[string]bool
}

func newWorld(t *testing.T, seed uint64, root string) *world {
	w := &world{
		t: t, trace: &trace{start: time.Now()}, rand: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)),
		root: root, sim: sim.NewWorld(), edge: newEdge(rand.New(rand.NewPCG(seed, 3))), disk: store.NewSimulatedDisk(),
		model: newModel(), twice: map[string]bool{},
	}
	w.disk.Commit = w.onCommit

	return w
}

// onCommit is called before each transaction.
func (w *world) onCommit(int) error {
	w.mu.Lock()
	process := w.process
	refused := w.dice.Float64() < w.refuse

	wait := time.Duration(0)
	if w.commit > 0 {
		wait = time.Duration(w.dice.Int64N(int64(w.commit)))
	}

	w.mu.Unlock()

	time.Sleep(wait)

	if process != nil && !process.gate.pass(beforeCommit) {
		return errKilled
	}

	if refused {
		return errors.New("input/output error (injected)")
	}

	return nil
}

// breakage notes that an invariant does not hold.
func (w *world) breakage(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.add("BROKEN %s", text)

	w.mu.Lock()
	defer w.mu.Unlock()

	w.broken = append(w.broken, text)
}

// called is told of every call that changes a hypervisor.
func (w *world) called(name, subject string, err error) {
	if err != nil {
		w.trace.add("  %s %s: %v", name, w.short(subject), err)
	} else {
		w.trace.add("  %s %s", name, w.short(subject))
	}

	w.look()
}

// vmNames are the names of all VMs by the UUIDs of their domains.
var vmNames = sync.OnceValue(func() map[string]string {
	all := map[string]string{}

	for prefix, count := range map[string]int{"vm-": vmCount, "ci-": ciCount, "api-": apiCount, "msg-": msgCount} {
		for i := range count {
			name := prefix + strconv.Itoa(i)
			all[hypervisor.DomainUUID(gatewayID, name)] = name
		}
	}

	return all
})

// short is the name of a VM whose domain has a UUID.
func (w *world) short(subject string) string {
	if name, ours := vmNames()[subject]; ours {
		return name
	}

	return subject
}

// look checks what holds at every instant.
func (w *world) look() {
	for _, v := range w.sim.Violations() {
		w.mu.Lock()
		known := w.twice[v]
		w.twice[v] = true
		w.mu.Unlock()

		if !known {
			w.breakage("violation: %s", v)
		}
	}
}

// st is the state of the running process.
func (w *world) st() state.State { return w.process.store.State() }

// pass lets virtual time pass. A process that is killed meanwhile by its tripwire is started again.
func (w *world) pass(d time.Duration) {
	if w.down {
		time.Sleep(d)

		return
	}

	deadline := time.Now().Add(d)

	for {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}

		select {
		case <-time.After(left):
			return
		case <-w.process.gate.killed:
			w.trace.add("KILLED by its tripwire")
			w.restart()
		}
	}
}

// kill ends the process at once, and starts the next one.
func (w *world) kill() {
	w.trace.add("KILL")
	w.process.gate.kill()
	w.restart()
}

// restart clears away a process that is dead and starts the next.
func (w *world) restart() {
	w.process.bury()

	if w.rand.IntN(3) == 0 {
		pause := time.Duration(w.rand.IntN(90)) * time.Second
		w.trace.add("down for %s", pause)
		w.down = true

		// The world goes on without the process.
		for range w.rand.IntN(4) {
			if w.quiet {
				break
			}

			downDeeds[w.rand.IntN(len(downDeeds))](w)
		}

		time.Sleep(pause)

		w.down = false
	}

	w.start()
}

// stop ends the process as SIGTERM does, and starts the next.
func (w *world) stop() {
	w.trace.add("STOP")
	w.process.end()
	w.start()
}

func (w *world) start() {
	p, err := newProcess(w)
	if err != nil {
		panic(err)
	}

	w.mu.Lock()
	w.process = p
	w.mu.Unlock()

	p.run()
	w.trace.add("START")
}

// write writes a file of the directory.
func (w *world) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(w.root, name), data, 0o600); err != nil {
		panic(err)
	}
}

// eventually waits for a condition, a virtual while.
func (w *world) eventually(limit time.Duration, holds func() []string) []string {
	began := time.Now()

	for {
		w.pass(10 * time.Second)

		problems := holds()
		if len(problems) == 0 {
			return nil
		}

		if time.Since(began) > limit {
			w.thorough = true

			return holds()
		}
	}
}

func ctx() context.Context { return context.Background() }
