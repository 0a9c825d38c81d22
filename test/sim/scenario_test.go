package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor/sim"
	"gateway/resources"
)

// deed is something that the outside does, and how often relative to the others.
type deed struct {
	weight int
	do     func(*world)
}

var deeds = []deed{
	{30, (*world).edit}, {8, (*world).remove}, {8, (*world).move}, {3, (*world).breakFile}, {2, (*world).duplicate}, {1, (*world).wipe},
	{14, (*world).send}, {5, (*world).sendLook}, {12, (*world).message}, {5, (*world).signal}, {2, (*world).badMessage},
	{6, (*world).power}, {3, (*world).restartVM}, {3, (*world).hold}, {3, (*world).drain},
	{14, (*world).behind}, {8, (*world).faults}, {5, (*world).hostDies}, {5, (*world).dropConnections}, {3, (*world).stick},
	{10, (*world).operate}, {4, (*world).takeName}, {2, (*world).unmount}, {4, (*world).mislay},
	{5, (*world).broker}, {5, (*world).slowDisk}, {5, (*world).killNow}, {10, (*world).armKill}, {3, (*world).stop},
	{4, (*world).stepClock}, {4, (*world).depotBreaks}, {3, (*world).newImage}, {2, (*world).loseImage},
}

// downDeeds are what can happen while no process runs. It is set before anything plays; a list in place would refer to itself.
var downDeeds []func(*world)

func init() {
	downDeeds = []func(*world){
		(*world).edit, (*world).remove, (*world).remove, (*world).move, (*world).message, (*world).behind, (*world).hostDies, (*world).drain, (*world).loseImage,
		(*world).stepClock,
	}
}

// play does n random deeds, with random pauses: most of them short, so that deeds meet.
func (w *world) play(n int) {
	total := 0
	for _, d := range deeds {
		total += d.weight
	}

	for range n {
		turn := w.rand.IntN(total)
		for _, d := range deeds {
			if turn -= d.weight; turn < 0 {
				d.do(w)

				break
			}
		}

		switch w.rand.IntN(6) {
		case 0:
			w.pass(time.Duration(w.rand.IntN(60)) * time.Second)
		case 1, 2:
			w.pass(time.Duration(w.rand.IntN(8000)) * time.Millisecond)
		default:
			w.pass(time.Duration(w.rand.IntN(400)) * time.Millisecond)
		}

		w.look()
	}
}

func (w *world) anyVM() string { return vmName(w.rand.IntN(vmCount)) }

func (w *world) anyHost() *sim.Host { return w.sim.Host(hostName(w.rand.IntN(hostCount))) }

// save writes a file of the model, or removes it.
func (w *world) save(file string, documents []object, torn bool) {
	w.model.files[file] = documents

	if len(documents) == 0 {
		delete(w.model.files, file)

		if err := os.Remove(filepath.Join(w.root, file)); err != nil && !os.IsNotExist(err) {
			panic(err)
		}

		return
	}

	if torn {
		data := encode(documents)
		w.write(file, data[:len(data)/2])
		w.pass(time.Duration(w.rand.IntN(6000)) * time.Millisecond)

		documents = w.model.files[file] // which may have changed while the process was down
	}

	if len(documents) > 0 {
		w.write(file, encode(documents))
	}
}

// edit declares a VM, or changes it.
func (w *world) edit() {
	name := w.anyVM()
	w.model.version++
	d := randomVM(w.rand, name, w.model.version)

	file := fmt.Sprintf("f%d.yaml", w.rand.IntN(fileCount))
	if at := w.model.where(name); len(at) > 0 {
		file = at[0]
	}

	documents := append(w.model.without(file, name), d)
	torn := w.rand.IntN(8) == 0
	text, _ := json.Marshal(d["spec"])
	w.trace.add("edit %s in %s (torn %v): %s %s", name, file, torn, d["metadata"], text)
	w.save(file, documents, torn)
}

func (w *world) remove() {
	name := w.anyVM()

	for _, file := range w.model.where(name) {
		w.trace.add("remove %s from %s", name, file)
		w.save(file, w.model.without(file, name), false)
	}
}

// move takes a VM from one file to another, in either order.
func (w *world) move() {
	name := w.anyVM()
	at := w.model.where(name)
	to := fmt.Sprintf("f%d.yaml", w.rand.IntN(fileCount))

	if len(at) == 0 || at[0] == to {
		return
	}

	from := at[0]
	d := w.model.files[from][slices.IndexFunc(w.model.files[from], func(d object) bool { return nameOf(d) == name })]
	addFirst := w.rand.IntN(2) == 0
	pause := time.Duration(w.rand.IntN(2)*w.rand.IntN(10_000)) * time.Millisecond
	w.trace.add("move %s from %s to %s (added first %v, pause %s)", name, from, to, addFirst, pause)

	add := func() { w.save(to, append(w.model.without(to, name), d), false) }
	take := func() { w.save(from, w.model.without(from, name), false) }

	if addFirst {
		add()
		w.pass(pause)
		take()
	} else {
		take()
		w.pass(pause)
		add()
	}
}

// breakFile leaves a file wrong for a while.
func (w *world) breakFile() {
	file := fmt.Sprintf("f%d.yaml", w.rand.IntN(fileCount))
	if w.model.files[file] == nil {
		return
	}

	w.trace.add("break %s", file)
	w.write(file, []byte("kind: [\n"))
	w.pass(time.Duration(w.rand.IntN(20)) * time.Second)
	w.save(file, w.model.files[file], false)
	w.trace.add("mend %s", file)
}

// duplicate declares a VM in a second file for a while.
func (w *world) duplicate() {
	name := w.anyVM()
	at := w.model.where(name)
	other := fmt.Sprintf("f%d.yaml", w.rand.IntN(fileCount))

	if len(at) == 0 || at[0] == other {
		return
	}

	w.model.version++
	w.trace.add("duplicate %s in %s", name, other)
	w.save(other, append(w.model.without(other, name), randomVM(w.rand, name, w.model.version)), false)
	w.pass(time.Duration(w.rand.IntN(20)) * time.Second)

	gone := []string{at[0], other}[w.rand.IntN(2)]
	w.trace.add("end the duplicate in %s", gone)
	w.save(gone, w.model.without(gone, name), false)
}

// endDuplicates leaves each VM in one file: a kill may have come while there were two.
func (w *world) endDuplicates() {
	for i := range vmCount {
		name := vmName(i)

		at := w.model.where(name)
		for _, file := range at[:max(0, len(at)-1)] {
			w.trace.add("end the duplicate of %s in %s", name, file)
			w.save(file, w.model.without(file, name), false)
		}
	}
}

// wipe empties the directory for a while, as a mistake does.
func (w *world) wipe() {
	w.trace.add("wipe")

	for _, file := range slices.Sorted(maps.Keys(w.model.files)) {
		if err := os.Remove(filepath.Join(w.root, file)); err != nil {
			panic(err)
		}
	}

	w.pass(time.Duration(w.rand.IntN(20)) * time.Second)

	for _, file := range slices.Sorted(maps.Keys(w.model.files)) {
		w.write(file, encode(w.model.files[file]))
	}

	w.trace.add("restored")
}

// power lays an override above a VM, or takes it away.
func (w *world) power() {
	name := w.anyVM()
	power := []string{"running", "stopped", "paused", "declared"}[w.rand.IntN(4)]
	guarded := w.guarded()

	if power == "declared" {
		err := guarded.Destroy(ctx(), resources.NewOverride(name).Metadata())
		w.trace.add("declared %s: %v", name, err)

		return
	}

	got, err := guarded.Get(ctx(), resources.NewVMConfig(name).Metadata())
	if err != nil || got.Metadata().Phase() != resource.PhaseRunning {
		return
	}

	patch := resources.JSON(fmt.Sprintf(`{"power":%q}`, power))

	base, err := resources.OverrideBase(got.(*resources.VMConfig).TypedSpec(), patch)
	if err != nil {
		panic(err)
	}

	until := time.Time{}
	if w.rand.IntN(2) == 0 {
		until = time.Now().Add(time.Duration(w.rand.IntN(120)) * time.Second)
	}

	err = w.override(name, func(s *resources.OverrideSpec) {
		s.Patch, s.Base, s.By, s.Since, s.Until, s.Revision = patch, base, "sim", time.Now().UTC(), until, resources.RevisionOf(got.Metadata())
	})
	w.trace.add("override %s %s until %s: %v", name, power, until.Format("15:04:05"), err)
}

func (w *world) restartVM() {
	name := w.anyVM()
	w.model.version++

	if _, err := w.st().Get(ctx(), resources.NewVMConfig(name).Metadata()); err != nil {
		return
	}

	err := w.override(name, func(s *resources.OverrideSpec) { s.RestartID = fmt.Sprintf("restart-%d", w.model.version) })
	w.trace.add("restart %s: %v", name, err)
}

func (w *world) override(name string, change func(*resources.OverrideSpec)) error {
	guarded := w.guarded()
	fresh := resources.NewOverride(name)
	change(fresh.TypedSpec())

	err := guarded.Create(ctx(), fresh)
	if !state.IsConflictError(err) {
		return err
	}

	_, err = guarded.UpdateWithConflicts(ctx(), fresh.Metadata(), func(r resource.Resource) error {
		change(r.(*resources.Override).TypedSpec())

		return nil
	})

	return err
}

// guarded is the state as an operator writes it.
func (w *world) guarded() state.State {
	return state.WrapCore(w.process.admission.Guard(w.process.store.State()))
}

// hold holds a VM for a while.
func (w *world) hold() {
	name := w.anyVM()
	h := resources.NewHold(resources.HoldID("VM", name))
	*h.TypedSpec() = resources.HoldSpec{Kind: "VM", Name: name, By: "sim", Since: time.Now().UTC()}
	w.trace.add("hold %s: %v", name, w.guarded().Create(ctx(), h))
	w.pass(time.Duration(w.rand.IntN(30)) * time.Second)
	w.trace.add("release %s: %v", name, w.guarded().Destroy(ctx(), h.Metadata()))
}

// drain drains another host, or none, and adds or removes the spare one.
func (w *world) drain() {
	w.model.drained, w.model.spare = w.rand.IntN(hostCount+1)-1, w.rand.IntN(2) == 0
	w.trace.add("drain %d, spare %v", w.model.drained, w.model.spare)
	w.write("infra.yaml", encode(infrastructure(w.model.drained, w.model.spare, w.model.image)))
}

// mislay takes documents of hosts, networks and subscriptions away by mistake, and puts them back: as a new object where nobody used it
// meanwhile, and otherwise as if nothing had been.
func (w *world) mislay() {
	kept := infrastructure(w.model.drained, w.model.spare, w.model.image)

	var lost []string

	for range 1 + w.rand.IntN(2) {
		at := w.rand.IntN(len(kept))
		if kind := kept[at]["kind"]; kind != "Host" && kind != "Network" && kind != "Subscription" {
			continue
		}

		lost = append(lost, fmt.Sprint(kept[at]["kind"], " ", kept[at]["metadata"]))
		kept = slices.Delete(kept, at, at+1)
	}

	w.trace.add("mislay %v", lost)
	w.write("infra.yaml", encode(kept))
	w.pass(time.Duration(w.rand.IntN(60_000)) * time.Millisecond)
	w.trace.add("put back %v", lost)
	w.write("infra.yaml", encode(infrastructure(w.model.drained, w.model.spare, w.model.image)))
}
