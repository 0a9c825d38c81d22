package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/hypervisor"
)

// found is what hosts had of a network that we made: the address of each MAC that they had an entry for. A VM that comes back
// after a loss of the state gets what it had.
type found struct {
	entries  map[string]netip.Addr
	promised map[netip.Addr]struct{}
}

func (l *ledger) foundOf(network string) *found {
	if l.found[network] == nil {
		l.found[network] = &found{entries: map[string]netip.Addr{}, promised: map[netip.Addr]struct{}{}}
	}

	return l.found[network]
}

// inspect looks, once for each host, at the entries of our networks there, before the first VM gets addresses on it that
// has none yet: where the state was lost, guests keep what they have.
func (p *pass) inspect(ctx context.Context) error {
	host := p.placement.TypedSpec().Host
	if host == "" || p.config != nil && len(p.config.TypedSpec().Interfaces) > 0 || len(p.vm.TypedSpec().Interfaces) == 0 || p.inspected(host) {
		return nil
	}

	flight := p.c.flights.Begin("inspect\x00"+host, func(ctx context.Context) error { return p.c.inspect(ctx, host) })

	switch err := flight.Wait(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, chain.ErrUnderWay):
		return controller.NewRequeueInterval(jitter(busyRetry))
	case errors.Is(err, hypervisor.ErrUnreachable):
		return controller.NewRequeueInterval(p.retryAfter(err))
	default:
		return err
	}
}

func (p *pass) inspected(host string) bool {
	p.c.ledger.mu.Lock()
	defer p.c.ledger.mu.Unlock()

	_, done := p.c.ledger.inspected[host]

	return done
}

func (c *Controller) inspect(ctx context.Context, host string) error {
	driver, err := c.options.Pool.Driver(host)
	if err != nil {
		return fmt.Errorf("error finding the connection to host %q: %w", host, err)
	}

	ctx, cancel := context.WithTimeout(ctx, hypervisor.ReadTimeout)
	defer cancel()

	all, err := driver.Networks(ctx)
	if err != nil {
		return fmt.Errorf("error listing the networks of host %q: %w", host, err)
	}

	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	for _, seen := range all {
		if !seen.Ours {
			continue
		}

		f := l.foundOf(seen.Name)

		for _, entry := range seen.Hosts {
			if a, err := netip.ParseAddr(entry.Address); err == nil {
				f.entries[strings.ToLower(entry.MAC)], f.promised[a] = a, struct{}{}
			}
		}
	}

	l.inspected[host] = struct{}{}

	return nil
}
