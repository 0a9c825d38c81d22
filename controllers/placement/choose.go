package placement

import (
	"fmt"
	"strings"

	"gateway/resources"
)

// Limits of what an unplaced VM says: a refusal is about 60 bytes, and 100,000 VMs may be refused by 100 hosts.
const (
	maxRefusals = 16
	maxInText   = 3
)

// refusal is one host that does not take a VM.
type refusal struct {
	host    string
	verdict verdict
}

// choice is the outcome of looking for a host: host, or the refusals of all.
type choice struct {
	host     string
	refusals []refusal
}

// choose returns the best host for a VM, except one.
func (l *ledger) choose(q *request, except string) choice {
	candidates := l.order
	if q.rules.Host != "" {
		candidates = []string{q.rules.Host}
	}

	var (
		c    choice
		best rank
		// together is often the same question for all hosts; spread needs sums over hosts.
		groups = l.groups(q)
	)

	for _, name := range candidates {
		if name == except {
			continue
		}

		v := l.judge(name, q, resources.Capacity{})
		if v.obstacle != fits {
			c.refusals = append(c.refusals, refusal{name, v})

			continue
		}

		if r := l.rank(name, q, groups); c.host == "" || r.better(best) {
			c.host, best = name, r
		}
	}

	return c
}

// rank says how good a host is; of equal ones the first by name is taken.
type rank struct {
	// unlabelled hosts come after all that have the label of `spread`.
	unlabelled bool
	kin, alike int
	// free is the share of memory that stays free.
	free float64
}

func (r rank) better(than rank) bool {
	switch {
	case r.unlabelled != than.unlabelled:
		return !r.unlabelled
	case r.kin != than.kin:
		return r.kin < than.kin
	case r.alike != than.alike:
		return r.alike < than.alike
	default:
		return r.free > than.free
	}
}

// group counts the VMs on all hosts with one value of the label of `spread`.
type group struct{ kin, alike int }

func (l *ledger) groups(q *request) map[string]group {
	if q.rules.Spread == "" {
		return nil
	}

	var (
		groups = map[string]group{}
		kin    = q.kin()
	)

	for name, on := range l.loads {
		h := l.hosts[name]
		if h == nil {
			continue
		}

		g := groups[h.labels[q.rules.Spread]]
		g.kin += on.kin[kin]
		g.alike += on.spread[q.rules.Spread]
		groups[h.labels[q.rules.Spread]] = g
	}

	return groups
}

func (l *ledger) rank(name string, q *request, groups map[string]group) rank {
	h := l.hosts[name]

	var r rank

	if q.rules.Spread != "" {
		value, labelled := h.labels[q.rules.Spread]
		g := groups[value]
		r.unlabelled, r.kin, r.alike = !labelled, g.kin, g.alike
	}

	if h.capacity.Memory > 0 {
		r.free = 1 - float64(l.of(name).used.Memory+q.need.Memory)/float64(h.capacity.Memory)
	}

	return r
}

// explain makes the specification of a VM that is nowhere.
func (c choice) explain(q *request) resources.VMPlacementSpec {
	spec := resources.VMPlacementSpec{Reason: resources.ReasonUnschedulable}

	if len(c.refusals) == 0 {
		spec.Reason, spec.Message = resources.ReasonNoHosts, "there are no hosts"

		return spec
	}

	away := 0

	for i, r := range c.refusals {
		if r.verdict.obstacle == unreachable {
			away++
		}

		if i < maxRefusals {
			spec.Hosts = append(spec.Hosts, resources.HostRefusal{Host: r.host, Reason: r.verdict.text(q)})
		}
	}

	if away == len(c.refusals) {
		spec.Reason = resources.ReasonHostUnreachable
	}

	spec.Message = c.text(q)

	return spec
}

// text names the obstacles of the first hosts.
func (c choice) text(q *request) string {
	parts := make([]string, 0, maxInText+1)

	for i, r := range c.refusals {
		if i == maxInText {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.refusals)-i))

			break
		}

		parts = append(parts, fmt.Sprintf("host %s: %s", r.host, r.verdict.text(q)))
	}

	if len(parts) == 0 {
		return "there is no other host"
	}

	return strings.Join(parts, "; ")
}
