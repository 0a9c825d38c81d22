package placement

import (
	"context"
	"fmt"

	"gateway/hypervisor"
)

// asked is what the hosts answered to the question which of our domains they have. It only holds domains of VMs that have
// no placement: those of others are where their placement says.
type asked struct {
	// generations has the connection in which a host answered last.
	generations map[string]int64
	// found has the host of a domain by the VM that its mark names; bare, by UUID, the host of those without any mark.
	found, bare map[string]string
	// astray has the host that has a domain of a VM which is placed elsewhere: it was given up there, and the host came back.
	// When the VM's placement ends, it is found there.
	astray map[string]string
	// theirs has the host of a domain with another gateway's mark by its UUID; marked has all hosts with such a domain by the
	// VM that the mark names: it may be ours of a data directory that was lost.
	theirs map[string]string
	marked map[string]names
	// left has the host on which a VM's domain may still be, since its placement was given up while that host was away.
	left map[string]string

	// questions counts those under way. gone are the VMs whose placement ended meanwhile: an answer that was given before
	// may still name their domains, and is not believed.
	questions int
	gone      names
}

func newAsked() asked {
	return asked{
		generations: map[string]int64{}, found: map[string]string{}, bare: map[string]string{}, astray: map[string]string{},
		theirs: map[string]string{}, marked: map[string]names{}, left: map[string]string{}, gone: names{},
	}
}

// forget drops what a host said.
func (a *asked) forget(host string) {
	delete(a.generations, host)

	for _, index := range []map[string]string{a.found, a.bare, a.astray, a.theirs, a.left} {
		for key, h := range index {
			if h == host {
				delete(index, key)
			}
		}
	}

	for vm := range a.marked {
		drop(a.marked, vm, host)
	}
}

// ended notes that a VM's placement is gone, and so its domain. Where the host is away it may not be.
func (a *asked) ended(gateway, vm string, h *host) {
	delete(a.found, vm)
	delete(a.bare, hypervisor.DomainUUID(gateway, vm))

	if a.questions > 0 {
		a.gone[vm] = struct{}{}
		a.gone[hypervisor.DomainUUID(gateway, vm)] = struct{}{}
	}

	if h != nil && !h.connected && !h.abandoned {
		a.left[vm] = h.name
	}

	if other := a.astray[vm]; other != "" {
		a.found[vm] = other
		delete(a.astray, vm)
	}
}

// answer takes in what a host said.
func (l *ledger) answer(gateway, name string, generation int64, domains []hypervisor.Domain) {
	a := &l.asked
	a.forget(name)

	for _, d := range domains {
		switch e := l.vms[d.VM]; {
		case d.Gateway == "":
			if _, gone := a.gone[d.UUID]; !gone {
				a.bare[d.UUID] = name
			}
		case d.Gateway != gateway:
			a.theirs[d.UUID] = name

			// As we would have named it: two gateways may have VMs of one name whose domains have others.
			if d.Name == d.VM {
				put(a.marked, d.VM, name)
			}
		case d.VM == "":
		case e == nil || e.host == "":
			if _, gone := a.gone[d.VM]; !gone {
				a.found[d.VM] = name
			}
		case e.host != name && e.claim != name:
			if _, gone := a.gone[d.VM]; !gone {
				a.astray[d.VM] = name
			}
		}
	}

	a.generations[name] = generation
}

// silent reports whether a host still has to be asked before a VM can be placed for the first time.
func (l *ledger) silent(h *host, vm string) bool {
	_, answered := l.asked.generations[h.name]

	switch {
	case h.abandoned:
		return false
	case l.asked.left[vm] == h.name:
		return true
	case h.connected:
		return !answered // a newer connection is asked as well, but its answer is not waited for
	case answered:
		return false
	default:
		return h.generation > 0 || !h.failed
	}
}

// where returns the host that has a VM's domain, or the one that has to be asked before. adopt is the UUID of a domain that
// the VM takes over; empty: none, or it is not known.
func (l *ledger) where(gateway, vm, adopt string) (has, silent string) {
	if name, ok := l.asked.found[vm]; ok {
		return name, ""
	}

	if len(l.asked.bare) > 0 {
		if name, ok := l.asked.bare[hypervisor.DomainUUID(gateway, vm)]; ok {
			return name, ""
		}
	}

	for _, index := range []map[string]string{l.asked.bare, l.asked.theirs} {
		if name, ok := index[adopt]; ok && adopt != "" {
			return name, ""
		}
	}

	for _, name := range l.order {
		if l.silent(l.hosts[name], vm) {
			return "", name
		}
	}

	return "", ""
}

// question is a host that has to be asked, in one of its connections.
type question struct {
	host       string
	generation int64
}

// questions returns the hosts that can be asked and have not answered in their present connection.
func (l *ledger) questions() []question {
	var open []question

	for _, name := range l.order {
		if h := l.hosts[name]; h.connected {
			if generation, answered := l.asked.generations[name]; !answered || generation != h.generation {
				open = append(open, question{name, h.generation})
			}
		}
	}

	return open
}

// ask asks one host for all its domains, in one call.
func (c *Controller) ask(ctx context.Context, q question) error {
	driver, err := c.options.Pool.Driver(q.host)
	if err != nil {
		return fmt.Errorf("error finding the connection to host %q: %w", q.host, err)
	}

	c.ledger.mu.Lock()
	c.ledger.asked.questions++
	c.ledger.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, hypervisor.ReadTimeout)
	defer cancel()

	domains, err := driver.Domains(ctx)

	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()

	if err == nil {
		c.ledger.answer(c.options.GatewayID, q.host, q.generation, domains)
	}

	if c.ledger.asked.questions--; c.ledger.asked.questions == 0 {
		clear(c.ledger.asked.gone)
	}

	if err != nil {
		return fmt.Errorf("error listing the domains of host %q: %w", q.host, err)
	}

	return nil
}
