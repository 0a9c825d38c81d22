package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// verifyAfter is how old the knowledge of a segment may be when somebody looks at a VM on it: a network that was removed
// behind our back is found by the slow resync, with at most one call for each segment in this time.
const verifyAfter = 10 * time.Second

// segment is the part of a network that is on one host. The ledger's lock guards it.
type segment struct {
	host, network string
	// members are the VMs that use it. made reports whether the gateway may have made it on the host.
	members names
	made    bool
	// version is raised by everything that changes what must be on the host.
	version uint64
	// applied is the version that the host has, as of the connection generation; verified is when that was seen.
	applied    uint64
	generation int64
	verified   time.Time
	// begun counts the calls, succeeded is the number of the last that did.
	begun, succeeded uint64
}

func (l *ledger) segment(host, network string) *segment {
	if l.segments[host] == nil {
		l.segments[host] = map[string]*segment{}
	}

	s := l.segments[host][network]
	if s == nil {
		s = &segment{host: host, network: network, members: names{}}
		l.segments[host][network] = s
	}

	return s
}

// plan is what one call brings to a host.
type plan struct {
	number, version uint64
	ensure          *hypervisor.NetworkSpec
	remove          bool
	// expect is the name of a network that somebody else made and that has to be there; empty: none.
	expect string
}

// plan decides what has to be on the host now.
func (l *ledger) plan(s *segment, gateway string) plan {
	s.begun++

	p := plan{number: s.begun, version: s.version}
	doc := l.network(s.network).doc
	ours := false

	for vm := range s.members {
		ours = ours || slices.ContainsFunc(l.vms[vm].held(), func(b resources.NetworkBinding) bool {
			return b.Network == s.network && b.Ours
		})
	}

	switch {
	case ours && doc != nil && managed(doc.spec.Mode):
		p.ensure = l.specOf(s, doc, gateway)
	case !ours:
		p.remove = s.made
	}

	if len(s.members) > 0 && doc != nil && doc.spec.Mode == resources.NetworkExisting && !p.remove && !ours {
		p.expect = doc.spec.LibvirtNetwork(s.network)
	}

	return p
}

// specOf is the network with the entries of all its VMs on the host. A VM's name stands with its first interface only:
// two entries of one name are refused.
func (l *ledger) specOf(s *segment, doc *document, gateway string) *hypervisor.NetworkSpec {
	first, last := doc.spec.Bounds()
	spec := &hypervisor.NetworkSpec{
		Name: s.network, UUID: hypervisor.NetworkUUID(gateway, s.network), Mode: doc.spec.Mode,
		Subnet: doc.spec.Prefix().String(), First: first.String(), Last: last.String(), Domain: doc.spec.Domain,
		Bridge: hypervisor.BridgeName(gateway, s.network),
	}

	for vm := range s.members {
		name, given := vm, map[string]bool{}

		// What retires keeps its entry, so that the running guest keeps its address, unless an interface that the VM has now
		// took over its MAC or its address.
		for _, b := range l.vms[vm].held() {
			if b.Network != s.network || !b.Ours || !doc.contains(b.Address) || given[b.MAC] || given[b.Address] {
				continue
			}

			given[b.MAC], given[b.Address] = true, true

			spec.Hosts = append(spec.Hosts, hypervisor.NetworkHost{MAC: b.MAC, Address: b.Address, Name: name})
			name = ""
		}
	}

	slices.SortFunc(spec.Hosts, func(a, b hypervisor.NetworkHost) int { return strings.Compare(a.MAC, b.MAC) })

	return spec
}

// sync brings a segment to its host, or joins the call that does. It returns when the host has at least what was asked
// for before; force wants a look at the host that began after the call, whatever is known.
func (p *pass) sync(ctx context.Context, host, network string) error {
	var (
		l    = &p.c.ledger
		need uint64
		seen uint64
	)

	// A call under way may have been planned too early; the one after it was not. The third is for a race with a new
	// connection.
	for turn := range 3 {
		l.mu.Lock()
		s := l.segments[host][network]

		if s == nil {
			l.mu.Unlock()

			return nil
		}

		if turn == 0 {
			need, seen = s.version, s.begun
		}

		done := s.applied >= need && s.generation == p.generation && time.Since(s.verified) < verifyAfter &&
			(!p.force || s.succeeded > seen)
		l.mu.Unlock()

		if done {
			return nil
		}

		flight := p.c.flights.Begin(host+"\x00"+network, func(ctx context.Context) error {
			return p.c.apply(ctx, p.logger, s, p.generation, p.cause())
		})
		if err := flight.Wait(ctx); err != nil {
			return err
		}
	}

	return errBusy
}

// errBusy says that a segment changed faster than it could be brought to its host.
var errBusy = fmt.Errorf("network changes all the time: %w", hypervisor.ErrBusy)

// apply plans and makes one call. It runs alone for its segment.
func (c *Controller) apply(ctx context.Context, logger *zap.Logger, s *segment, generation int64, cause string) error {
	c.ledger.mu.Lock()
	todo := c.ledger.plan(s, c.options.GatewayID)
	c.ledger.mu.Unlock()

	// What was allocated is durable before a host hears of it.
	if err := c.options.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store before changing network %q on host %q: %w", s.network, s.host, err)
	}

	ctx, cancel := context.WithTimeout(ctx, hypervisor.StepTimeout)
	defer cancel()

	what, err := c.execute(ctx, s, todo)

	c.ledger.applied(s, todo, generation, err)

	if err != nil || what == "" {
		return err
	}

	logger.Info("changed the hypervisor", zap.String("step", what), zap.String("network", s.network), zap.String("host", s.host),
		zap.String("cause", cause))

	if err := c.options.Journal.Append(store.Entry{
		Class: store.ClassHypervisor, Source: resources.ControllerNetwork, Name: s.host, EventID: cause,
		Object: "Network/" + s.network, Message: what,
	}); err != nil {
		return fmt.Errorf("error noting the change of network %q on host %q: %w", s.network, s.host, err)
	}

	return nil
}

// execute calls the host, and says what was changed there; empty: nothing.
func (c *Controller) execute(ctx context.Context, s *segment, todo plan) (what string, err error) {
	if todo.ensure == nil && !todo.remove && todo.expect == "" {
		return "", nil
	}

	driver, err := c.options.Pool.Driver(s.host)
	if err != nil {
		return "", fmt.Errorf("error finding the connection to host %q: %w", s.host, err)
	}

	switch {
	case todo.ensure != nil:
		changed, err := driver.EnsureNetwork(ctx, *todo.ensure)
		if err != nil {
			return "", fmt.Errorf("error making network %q on host %q: %w", s.network, s.host, err)
		}

		if changed {
			what = fmt.Sprintf("make network with %d entries", len(todo.ensure.Hosts))
		}
	case todo.remove:
		// A network of this name that somebody else made since is not ours to remove.
		if err := driver.RemoveNetwork(ctx, s.network); err != nil && !errors.Is(err, hypervisor.ErrForeign) {
			return "", fmt.Errorf("error removing network %q from host %q: %w", s.network, s.host, err)
		}

		what = "remove network"
	default:
		return "", expect(ctx, driver, s.host, todo.expect)
	}

	return what, nil
}

// expect checks that a network which somebody else made is there and can be used.
func expect(ctx context.Context, driver hypervisor.Driver, host, network string) error {
	all, err := driver.Networks(ctx)
	if err != nil {
		return fmt.Errorf("error listing the networks of host %q: %w", host, err)
	}

	for _, n := range all {
		switch {
		case n.Name != network:
		case !n.Active:
			return fmt.Errorf("network %q on host %q is not active: %w", network, host, errMissing)
		default:
			return nil
		}
	}

	return fmt.Errorf("host %q has no network %q: %w", host, network, errMissing)
}

// errMissing says that a network which has to exist already does not.
var errMissing = errors.New("mode existing needs it to be there")

// applied notes the outcome of a call.
func (l *ledger) applied(s *segment, todo plan, generation int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	n := l.network(s.network)

	if err != nil {
		failure := problemOf(err)
		n.failures[s.host] = failure
		l.unreported[n.name] = n

		return
	}

	if _, failed := n.failures[s.host]; failed {
		delete(n.failures, s.host)

		l.unreported[n.name] = n
	}

	if todo.remove && s.version == todo.version {
		s.made = false // else somebody joined meanwhile, and will make it again
	}

	s.applied, s.generation, s.verified, s.succeeded = todo.version, generation, time.Now(), todo.number
}
