package sim

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gateway/hypervisor"
)

// ErrInjected is what an injected failure is, unless it says otherwise: a fault of the hypervisor that may go away.
var ErrInjected = errors.New("internal error (injected)")

// Faults are rates of failures, each from 0 to 1. What happens to a call depends only on the seed, the host, the method,
// the object and how often this was asked before: it is the same whatever order the calls of other objects come in.
type Faults struct {
	Seed uint64
	// Slow calls take up to MaxDelay longer. Hanging ones last until their context ends.
	Slow, Hang float64
	// FailBefore fails without an effect, FailAfter with it, half of them as if the host had not answered.
	FailBefore, FailAfter float64
	// LoseBefore and LoseAfter lose the connection, with all calls and events on it.
	LoseBefore, LoseAfter float64
	// Events that are lost, doubled, or overtaken by the next one.
	LoseEvent, DoubleEvent, ReorderEvent float64
	// MaxDelay bounds Slow; the default is a second.
	MaxDelay time.Duration
}

// rate returns the rate that a parameter of a URI names, nil when there is none of that name.
func (f *Faults) rate(name string) *float64 {
	return map[string]*float64{
		"slow": &f.Slow, "hang": &f.Hang, "failBefore": &f.FailBefore, "failAfter": &f.FailAfter,
		"loseBefore": &f.LoseBefore, "loseAfter": &f.LoseAfter,
		"loseEvent": &f.LoseEvent, "doubleEvent": &f.DoubleEvent, "reorderEvent": &f.ReorderEvent,
	}[name]
}

// any reports whether a rate is above zero, which is to say, whether dice are thrown at all.
func (f *Faults) any() bool {
	return f.Slow+f.Hang+f.FailBefore+f.FailAfter+f.LoseBefore+f.LoseAfter+f.LoseEvent+f.DoubleEvent+f.ReorderEvent > 0
}

// FaultKind is what happens to a call.
type FaultKind int

// Kinds of injected faults. Stuck is a hanging call that does not heed its context: it ends when the fault is removed, and
// takes effect then, or when the connection ends.
const (
	Slow FaultKind = iota
	Hang
	Stuck
	FailBefore
	FailAfter
	LoseBefore
	LoseAfter
)

// Fault is one failure to inject into calls.
type Fault struct {
	Kind FaultKind
	// Call is the method, as StartDomain, or Open; empty: any.
	Call string
	// Subject is the UUID of the domain, or the name of domain, network or volume; empty: any.
	Subject string
	// Delay is how much longer a Slow call takes.
	Delay time.Duration
	// Err is the error of FailBefore and FailAfter; ErrInjected when nil.
	Err error
	// Times is how many calls it hits; 0: all until it is removed.
	Times int
}

type injection struct {
	Fault

	used int
	over chan struct{} // closed when it is removed
}

// SetFaults replaces the rates of failures of the host.
func (h *Host) SetFaults(f Faults) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.faults = f
	h.turns = map[string]uint64{}
}

// Inject makes calls fail. What it returns ends that, and lets calls go on that were stuck.
func (h *Host) Inject(f Fault) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()

	in := &injection{Fault: f, over: make(chan struct{})}
	h.injected = append(h.injected, in)

	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()

		h.injected = slices.DeleteFunc(h.injected, func(other *injection) bool { return other == in })
		close(in.over)
	})
}

// plan is what happens to one call.
type plan struct {
	delay       time.Duration
	hang        bool
	stuck       <-chan struct{}
	before      error
	after       error
	loseBefore  bool
	loseAfter   bool
	hasInjected bool
}

// plan decides about one call.
func (h *Host) plan(call, subject string) plan {
	var p plan

	for _, in := range h.injected {
		if in.Call != "" && in.Call != call || in.Subject != "" && in.Subject != subject || in.Times > 0 && in.used >= in.Times {
			continue
		}

		in.used++
		p.inject(in)
	}

	if !p.hasInjected && h.faults.any() {
		p.throw(&h.faults, h.dice(call, subject))
	}

	return p
}

func (p *plan) inject(in *injection) {
	p.hasInjected = true

	err := in.Err
	if err == nil {
		err = ErrInjected
	}

	switch in.Kind {
	case Slow:
		p.delay += in.Delay
	case Hang:
		p.hang = true
	case Stuck:
		p.stuck = in.over
	case FailBefore:
		p.before = err
	case FailAfter:
		p.after = err
	case LoseBefore:
		p.loseBefore = true
	case LoseAfter:
		p.loseAfter = true
	}
}

func (p *plan) throw(f *Faults, dice *rand.Rand) {
	longest := f.MaxDelay
	if longest <= 0 {
		longest = time.Second
	}

	failure := func() error {
		if dice.IntN(2) == 0 {
			return hypervisor.ErrUnreachable
		}

		return ErrInjected
	}

	if dice.Float64() < f.Slow {
		p.delay = time.Duration(dice.Int64N(int64(longest)) + 1)
	}

	p.hang = dice.Float64() < f.Hang
	p.loseBefore = dice.Float64() < f.LoseBefore
	p.loseAfter = dice.Float64() < f.LoseAfter

	if dice.Float64() < f.FailBefore {
		p.before = failure()
	}

	if dice.Float64() < f.FailAfter {
		p.after = failure()
	}
}

// dice returns the random source of one decision.
func (h *Host) dice(what, subject string) *rand.Rand {
	key := what + "\x00" + subject
	turn := h.turns[key]
	h.turns[key] = turn + 1

	hash := fnv.New64a()
	hash.Write([]byte(h.name + "\x00" + key)) // never fails

	return rand.New(rand.NewPCG(h.faults.Seed, hash.Sum64()+turn*0x9e3779b97f4a7c15))
}

// What happens to an event.
type eventFault int

const (
	eventFine eventFault = iota
	eventLost
	eventDoubled
	eventLate
)

func (h *Host) eventFault(uuid string) eventFault {
	f := &h.faults
	if f.LoseEvent+f.DoubleEvent+f.ReorderEvent == 0 {
		return eventFine
	}

	dice := h.dice("event", uuid)

	switch n := dice.Float64(); {
	case n < f.LoseEvent:
		return eventLost
	case n < f.LoseEvent+f.DoubleEvent:
		return eventDoubled
	case n < f.LoseEvent+f.DoubleEvent+f.ReorderEvent:
		return eventLate
	default:
		return eventFine
	}
}
