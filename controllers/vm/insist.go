package vm

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// insistFirst is how long a guest has to go along with what it was asked for, or to boot as far as that; each further
	// time is twice as long: 5, 10, … 320 s. After insistTimes, eleven minutes, it is not asked any more: a guest that uses
	// a disk does not let go of it, and one without a balloon driver gives no memory back.
	insistFirst = 5 * time.Second
	insistTimes = 7
	// bootTime is how long a guest has after its start until it is asked for what only it can do.
	bootTime = time.Minute
)

// pluggable are the fields that may be brought into effect without a restart.
var pluggable = []string{hypervisor.FieldCPUs, hypervisor.FieldMemory, hypervisor.FieldDisks, hypervisor.FieldInterfaces}

// insistence remembers in what running domains are behind their definitions, and how often that was tried to be mended. It
// holds only VMs that are behind; losing it costs one more try for each.
type insistence struct {
	mu  sync.Mutex // guards vms
	vms map[resource.ID]*lag
}

// lag is in what one running domain is behind.
type lag struct {
	// what is behind: another one is another lag.
	what  string
	tries int
	next  time.Time
	// drifted reports that nothing was declared: others brought it about.
	drifted bool
	// refused is what the hypervisor said at the last try.
	refused []string
}

// due reports whether it is to be tried now to bring the domain to its definition: not before earliest, and at once where
// others brought it about.
func (i *insistence) due(vm resource.ID, what string, drifted bool, earliest, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	if what == "" {
		delete(i.vms, vm)

		return false
	}

	l := i.of(vm, what)
	if l.next.IsZero() {
		l.next, l.drifted = earliest, drifted

		if drifted {
			l.next = now
		}
	}

	return l.tries < insistTimes && !now.Before(l.next)
}

// tried notes a try, and what came of it. One in which nothing could be done is the last one.
func (i *insistence) tried(vm resource.ID, what string, result *hypervisor.DefineResult, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()

	if what == "" {
		delete(i.vms, vm)

		return
	}

	l := i.of(vm, what)
	l.next = now.Add(insistFirst << l.tries)
	l.refused = result.Refused

	if l.tries++; len(result.Live) == 0 && len(result.Refused) == 0 {
		l.tries = insistTimes
	}
}

// of returns what is known of a lag. The caller holds the lock.
func (i *insistence) of(vm resource.ID, what string) *lag {
	l := i.vms[vm]
	if l == nil || l.what != what {
		l = &lag{what: what}

		if i.vms == nil {
			i.vms = map[resource.ID]*lag{}
		}

		i.vms[vm] = l
	}

	return l
}

// wait returns when to look again; 0: not before something happens.
func (i *insistence) wait(vm resource.ID, now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()

	l := i.vms[vm]
	if l == nil || l.tries >= insistTimes {
		return 0
	}

	return max(l.next.Sub(now), minRequeue)
}

// mends reports whether what is tried mends what others brought about.
func (i *insistence) mends(vm resource.ID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	return i.vms[vm] != nil && i.vms[vm].drifted
}

// refused returns what the hypervisor refused at the last try.
func (i *insistence) refused(vm resource.ID) []string {
	i.mu.Lock()
	defer i.mu.Unlock()

	if l := i.vms[vm]; l != nil {
		return l.refused
	}

	return nil
}

func (i *insistence) forget(vm resource.ID) {
	i.mu.Lock()
	defer i.mu.Unlock()

	delete(i.vms, vm)
}

// behind says in what the running domain is behind its definition so that a restart is not the only way; empty: in nothing.
// onlyGuest reports that it is the guest's turn.
func (p *pass) behind() (what string, onlyGuest bool) {
	if p.domain == nil || isOff(p.domain) {
		return "", false
	}

	var fields []string

	for _, field := range p.domain.RestartRequired {
		if slices.Contains(pluggable, field) {
			fields = append(fields, field)
		}
	}

	onlyGuest = len(fields) == 0

	if p.waitsForGuest() {
		fields = append(fields, p.domain.WaitsForGuest...)
	}

	if len(fields) == 0 {
		return "", false
	}

	return fmt.Sprintf("revision %d, %s since %d: %s",
		p.domain.Revision, p.domain.State, p.status.Started.Unix(), strings.Join(fields, " ")), onlyGuest
}

// insist reports whether the running domain is to be brought to its definition now, although that has not changed.
func (p *pass) insist() bool {
	what, onlyGuest := p.behind()
	earliest := p.tick

	// A guest starts with all of its memory, and gives back what is too much when it has booted.
	if onlyGuest {
		earliest = p.tick.Add(p.status.Started.Add(bootTime).Sub(p.now))
	}

	return p.c.insistence.due(p.id, what, p.drifted() && !p.acted, earliest, p.tick)
}

// restartMessage says which fields wait for a restart, and what was in the way of doing without.
func (p *pass) restartMessage() string {
	message := strings.Join(p.status.RestartRequired, ", ") + " take effect after a restart"
	if refused := p.c.insistence.refused(p.id); len(refused) > 0 {
		message += " (" + strings.Join(refused, "; ") + ")"
	}

	return message
}

// waitsForGuest reports whether the guest has yet to go along with something. One that is paused can't.
func (p *pass) waitsForGuest() bool {
	return p.domain != nil && p.domain.State == resources.StateRunning && len(p.domain.WaitsForGuest) > 0
}

// guestMessage says what the guest has not done.
func (p *pass) guestMessage() string {
	return fmt.Sprintf("the guest has more than the declared %s of memory: it has to give it back, which takes a balloon driver", p.spec.Memory)
}
