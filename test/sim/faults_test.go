package sim

import (
	"time"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// behind does something to a domain behind the gateway's back.
func (w *world) behind() {
	name := w.anyVM()

	switch w.rand.IntN(6) {
	case 0:
		name = ciName(w.rand.IntN(ciCount))
	case 1:
		name = apiName(w.rand.IntN(apiCount))
	}

	uuid := hypervisor.DomainUUID(gatewayID, name)

	located := w.sim.Domains(uuid)
	if len(located) == 0 {
		return
	}

	h := w.sim.Host(located[w.rand.IntN(len(located))].Host)
	what := []string{"destroy", "crash", "guest shutdown", "pause", "resume", "undefine", "memory", "stubborn"}[w.rand.IntN(8)]
	w.trace.add("behind: %s %s on %s", what, name, h.Name())

	switch what {
	case "destroy":
		h.Destroy(uuid)
	case "crash":
		h.Crash(uuid)
	case "guest shutdown":
		h.GuestShutdown(uuid)
	case "pause":
		h.Pause(uuid)
	case "resume":
		h.Resume(uuid)
	case "undefine":
		h.Undefine(uuid)
	case "memory":
		h.SetMemory(uuid, 333*resources.MiB)
	case "stubborn":
		h.SetStubborn(uuid, w.rand.IntN(2) == 0)
	}
}

// faults gives a host other rates of faults.
func (w *world) faults() {
	h := w.anyHost()
	rate := func(most float64) float64 {
		if w.rand.IntN(2) == 0 {
			return 0
		}

		return w.rand.Float64() * most
	}
	f := sim.Faults{
		Seed: w.rand.Uint64(), Slow: rate(0.5), Hang: rate(0.05), FailBefore: rate(0.2), FailAfter: rate(0.2),
		LoseBefore: rate(0.05), LoseAfter: rate(0.05), LoseEvent: rate(0.8), DoubleEvent: rate(0.3), ReorderEvent: rate(0.3),
		MaxDelay: time.Duration(1+w.rand.IntN(8)) * time.Second,
	}
	w.trace.add("faults of %s: %+v", h.Name(), f)
	h.SetFaults(f)
}

// hostDies takes a host away, or brings it back.
func (w *world) hostDies() {
	h := w.anyHost()

	if w.model.down[h.Name()] {
		w.trace.add("revive %s", h.Name())
		h.Revive()
		w.model.down[h.Name()] = false

		return
	}

	off := w.rand.IntN(2) == 0
	w.trace.add("kill host %s (power cut %v)", h.Name(), off)
	h.Kill(off)
	w.model.down[h.Name()] = true

	if w.rand.IntN(2) == 0 {
		w.pass(time.Duration(w.rand.IntN(40)) * time.Second)
		w.trace.add("revive %s", h.Name())
		h.Revive()
		w.model.down[h.Name()] = false
	}
}

func (w *world) dropConnections() {
	h := w.anyHost()
	w.trace.add("drop the connections of %s", h.Name())
	h.DropConnections()
}

// stick lets the calls on a host, or those of one kind, hang for a while.
func (w *world) stick() {
	h := w.anyHost()
	call := []string{"", "StartDomain", "DefineDomain", "Domain", "EnsureNetwork", "UndefineDomain"}[w.rand.IntN(6)]
	w.trace.add("stick %q on %s", call, h.Name())
	end := h.Inject(sim.Fault{Kind: sim.Stuck, Call: call})
	w.pass(time.Duration(w.rand.IntN(50)) * time.Second)
	end()
	w.trace.add("unstick %q on %s", call, h.Name())
}

func (w *world) broker() {
	away, chaos, full := w.rand.IntN(3) == 0, float64(w.rand.IntN(3))*0.2, w.rand.IntN(4) == 0
	w.trace.add("broker away %v, chaos %.1f, full %v", away, chaos, full)
	w.edge.set(away, chaos, full)
}

func (w *world) slowDisk() {
	commit, refuse := time.Duration(w.rand.IntN(3)*w.rand.IntN(1500))*time.Millisecond, float64(w.rand.IntN(3))*0.3
	w.trace.add("commits take up to %s, %.1f fail", commit, refuse)
	w.setDisk(commit, refuse)
}

func (w *world) setDisk(commit time.Duration, refuse float64) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.commit, w.refuse = commit, refuse
}

func (w *world) killNow() { w.kill() }

// armKill lets the process be killed at a point that it passes some time.
func (w *world) armKill() {
	at := []point{beforeStep, afterStep, beforeCommit, beforePublish, beforeAck}[w.rand.IntN(5)]
	n := 1 + w.rand.IntN(12)
	w.trace.add("arm a kill %s, the %d.", at, n)
	w.process.gate.arm(at, n)
}

// noFaults are the faults of a host that has none.
var noFaults = sim.Faults{}
