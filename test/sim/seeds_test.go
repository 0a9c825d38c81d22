package sim

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor"
	"gateway/resources"
)

// How many seeds are run without SIM_SEEDS: with the race detector one takes two to three and a half seconds of CPU, so these are under
// two minutes on two cores. Most seeds are played without it, by TestSeedsWhereTheClockIsSet.
const (
	defaultSeeds = 80
	shortSeeds   = 40
)

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) (n int, set bool) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, false
	}

	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}

	return n, true
}

// Whatever is asked for, in whatever order, and whatever breaks: everything converges to what was asked for last, and no
// invariant is broken on the way. SIM_SEED runs one seed, SIM_SEEDS that many, from SIM_FIRST on.
func TestSeeds(t *testing.T) {
	if seed, one := number(t, "SIM_SEED", 0); one {
		run(t, uint64(seed))

		return
	}

	untilFound := os.Getenv("SIM_UNTIL_FOUND") != ""
	first, _ := number(t, "SIM_FIRST", 0)

	otherwise := defaultSeeds
	if testing.Short() {
		otherwise = shortSeeds
	}

	seeds, _ := number(t, "SIM_SEEDS", otherwise)
	start := time.Now()

	var (
		done atomic.Int64
		once sync.Once
	)

	t.Run("all", func(t *testing.T) {
		for seed := range seeds {
			t.Run(strconv.Itoa(first+seed), func(t *testing.T) {
				t.Parallel()

				if untilFound && done.Load() < 0 {
					t.Skip("found")
				}

				defer func() {
					if n := done.Add(1); untilFound && t.Failed() {
						once.Do(func() { t.Logf("found after %d seeds", n) })
						done.Store(math.MinInt32)
					}
				}()

				run(t, uint64(first+seed))
			})
		}
	})

	t.Logf("%d seeds, %.1f a second", seeds, float64(seeds)/time.Since(start).Seconds())
}

// run simulates one seed.
func run(t *testing.T, seed uint64) {
	root := t.TempDir()

	var w *world

	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r, w.trace)
		}
	}()

	synctest.Test(t, func(t *testing.T) {
		setClock(0)

		w = newWorld(t, seed, root)
		problems := w.simulate()

		w.process.end()

		if err := w.sim.Close(); err != nil {
			problems = append(problems, err.Error())
		}

		time.Sleep(2 * time.Minute) // whatever was abandoned ends
		synctest.Wait()

		problems = append(w.broken, problems...)

		if os.Getenv("SIM_TRACE") != "" {
			fmt.Println(w.trace)
		}

		if len(problems) > 0 {
			t.Errorf("seed %d:\n  %s\ntrace:\n%s\nSIM_SEED=%d go test ./test/sim", seed, strings.Join(problems, "\n  "), w.trace, seed)
		}
	})
}

// patience is how long everything may take to converge after the last fault: a guest that crashed is watched for ten minutes,
// and a message waits for as long.
const patience = 25 * time.Minute

// simulate plays a scenario and returns what is wrong at its end.
func (w *world) simulate() []string {
	w.strangers()
	w.write("infra.yaml", encode(infrastructure(-1, false, 0)))
	w.start()
	w.untilDeclared()

	for range 3 + w.rand.IntN(3) {
		w.edit()
	}

	for range 1 + w.rand.IntN(2) {
		w.play(20 + w.rand.IntN(50))
		w.calm()
		w.pass(time.Minute) // calls that hang end

		if problems := w.eventually(patience, w.problems); len(problems) > 0 {
			return append([]string{"not converged:"}, problems...)
		}

		if problems := w.restartsQuietly(); len(problems) > 0 {
			return append([]string{"after a restart:"}, problems...)
		}
	}

	return w.clear()
}

// strangers puts domains on the hosts that are not ours.
func (w *world) strangers() {
	for i := range hostCount {
		h := w.sim.Host(hostName(i))
		w.model.foreign[h.Name()] = map[string]hypervisor.Domain{}

		for j, gateway := range []string{"", "other"} {
			d := hypervisor.Domain{
				Name: fmt.Sprintf("stranger-%d", j), UUID: hypervisor.DomainUUID("other", fmt.Sprint(i, j)), Gateway: gateway,
				VM: map[string]string{"other": "vm-0"}[gateway], State: resources.StateRunning,
				Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB},
			}
			if err := h.AddDomain(d); err != nil {
				panic(err)
			}

			w.model.foreign[h.Name()][d.UUID], _ = h.Domain(d.UUID)
		}
	}
}

// calm ends all faults, and what an operator left behind.
func (w *world) calm() {
	w.trace.add("calm")
	w.giveNames()
	w.endDuplicates()
	w.process.gate.arm("", 0)
	w.rightClock()
	w.edge.set(false, 0, false)
	w.setDepot(0)
	w.setDisk(20*time.Millisecond, 0)

	for _, h := range w.sim.Hosts() {
		h.Revive()
		h.SetFaults(noFaults)
		w.model.down[h.Name()] = false
	}

	// An operator sees what is held back and confirms it, and what is held, and releases it.
	w.eventually(5*time.Minute, func() []string {
		holds := list[*resources.Hold](w, "Hold")
		for id, r := range holds {
			w.trace.add("release %s: %v", id, w.guarded().Destroy(ctx(), r.Metadata()))
		}

		guards := list[*resources.DeletionGuard](w, "DeletionGuard")
		for _, g := range guards {
			w.model.version++
			a := resources.NewAction(fmt.Sprintf("confirm-%d", w.model.version))
			*a.TypedSpec() = resources.ActionSpec{
				Verb: resources.ActionConfirm, Subject: g.TypedSpec().Root, By: "api", Body: resources.JSON(fmt.Sprintf(`{"digest":%q}`, g.TypedSpec().Digest)),
			}
			w.trace.add("confirm %v: %v", g.TypedSpec().Objects, w.guarded().Create(ctx(), a))
		}

		if len(guards)+len(holds) > 0 {
			return []string{"held"}
		}

		return nil
	})
}

// restartsQuietly checks that nothing is done to a converged installation, whatever comes to the process.
func (w *world) restartsQuietly() []string {
	before, ending := w.sim.Changes(), w.overridden()

	var allowed []string

	// What runs and is behind its definition is asked once more to go along with it.
	if w.anyBehind() {
		allowed = append(allowed, "DefineDomain")
	}

	// The entries of interfaces that retire are brought up to date when somebody needs the network, and a network that only
	// they have may go.
	for _, n := range list[*resources.NetworkConfig](w, "NetworkConfig") {
		if len(n.TypedSpec().Retiring) > 0 {
			allowed = append(allowed, "EnsureNetwork", "RemoveNetwork")
		}
	}

	w.quiet = true

	if w.rand.IntN(2) == 0 {
		w.kill()
	} else {
		w.stop()
	}

	w.quiet = false

	w.pass(time.Duration(2+w.rand.IntN(8)) * time.Minute)

	problems := w.eventually(time.Minute, w.problems)

	after := w.sim.Changes()

	for _, call := range allowed {
		delete(before, call)
		delete(after, call)
	}

	if fmt.Sprint(before) != fmt.Sprint(after) && len(ending) == 0 {
		problems = append(problems, fmt.Sprintf("calls changed something: %v, %v", before, after))
	}

	return problems
}

// anyBehind reports whether a domain that runs is not yet what its definition says.
func (w *world) anyBehind() bool {
	for _, s := range list[*resources.VMStatus](w, "VMStatus") {
		converged := resources.FindCondition(s.TypedSpec().Conditions, resources.ConditionConverged)
		if len(s.TypedSpec().RestartRequired) > 0 || converged != nil && converged.Reason == resources.ReasonWaiting {
			return true
		}
	}

	return false
}

// overridden are the VMs whose override ends by itself.
func (w *world) overridden() (all []string) {
	for name, o := range list[*resources.Override](w, "Override") {
		if !o.TypedSpec().Until.IsZero() {
			all = append(all, name)
		}
	}

	return all
}

// clear takes everything away and checks that nothing is left.
func (w *world) clear() []string {
	w.trace.add("clear")

	for _, file := range slices.Sorted(maps.Keys(w.model.files)) {
		w.save(file, nil, false)
	}

	for i := range msgCount {
		w.publishGone(msgName(i))
	}

	// Also one that the model does not know: the only delivery that was to make it was never acknowledged, and may be there.
	for _, name := range deliveredNames() {
		if got, err := w.st().Get(ctx(), resources.NewVMConfig(name).Metadata()); err == nil && got.Metadata().Phase() == resource.PhaseRunning {
			_, err := w.guarded().Teardown(ctx(), got.Metadata())
			if err != nil && !state.IsNotFoundError(err) {
				w.trace.add("delete %s: %v", name, err)
			}
		}

		w.model.ci[name], w.model.unsure[name] = nil, false
	}

	w.pass(10 * time.Second)
	w.calm()

	problems := w.eventually(patience, w.problems)
	for name := range list[*resources.VMConfig](w, "VM") {
		problems = append(problems, "VM "+name+" is left")
	}

	if len(problems) > 0 {
		return append([]string{"not cleared:"}, problems...)
	}

	return nil
}
