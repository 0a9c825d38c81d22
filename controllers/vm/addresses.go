package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// leaseWait is how long after a start a guest is expected to ask for its addresses. Leases have no events.
	leaseWait = 2 * time.Minute
	// Within leaseWait the leases are read every quarter of the time since the start, within these bounds.
	leasePollMin = time.Second
	leasePollMax = 5 * time.Second
)

// sourceDeclared is the source of an address that the gateway gave out.
const sourceDeclared = "declared"

// readAddresses takes what is known of the VM's addresses into the status. The hypervisor is asked only while an address is
// missing, and asked again only in the first minutes after a start.
func (p *pass) readAddresses(ctx context.Context) error {
	known := p.declaredAddresses()

	if p.domain == nil || p.domain.State != resources.StateRunning {
		p.setAddresses(known)

		return nil
	}

	for _, a := range p.status.Addresses {
		if a.Source != sourceDeclared && p.hasInterface(a.MAC) {
			known = append(known, a)
		}
	}

	if p.leasesMissing(known) {
		found, err := p.driver.Addresses(ctx, p.uuid())

		switch {
		case errors.Is(err, hypervisor.ErrUnsupported):
			p.setAddresses(known)

			return nil
		case err != nil:
			return fmt.Errorf("error reading the addresses of VM %q: %w", p.id, err)
		}

		known = append(p.declaredAddresses(), found...)

		if since := p.now.Sub(p.status.Started); p.leasesMissing(known) && since < leaseWait {
			p.after(min(max(since/4, leasePollMin), leasePollMax))
		}
	}

	p.setAddresses(known)

	return nil
}

// declaredAddresses are those that the gateway gave out.
func (p *pass) declaredAddresses() (addresses []resources.Address) {
	if p.network == nil || len(p.spec.Interfaces) == 0 {
		return nil
	}

	for _, b := range p.network.TypedSpec().Interfaces {
		if b.Address != "" {
			addresses = append(addresses, resources.Address{Address: b.Address, Source: sourceDeclared, Network: b.Network, MAC: b.MAC})
		}
	}

	return addresses
}

// leasesMissing reports whether an interface on a network that gives leases has none among known.
func (p *pass) leasesMissing(known []resources.Address) bool {
	if p.network == nil || len(p.spec.Interfaces) == 0 {
		return false
	}

	return slices.ContainsFunc(p.network.TypedSpec().Interfaces, func(b resources.NetworkBinding) bool {
		return b.LibvirtNetwork != "" && !slices.ContainsFunc(known, func(a resources.Address) bool {
			return a.Source != sourceDeclared && strings.EqualFold(a.MAC, b.MAC)
		})
	})
}

func (p *pass) hasInterface(mac string) bool {
	return p.network != nil && slices.ContainsFunc(p.network.TypedSpec().Interfaces, func(b resources.NetworkBinding) bool {
		return strings.EqualFold(b.MAC, mac)
	})
}

func compareAddresses(a, b resources.Address) int {
	return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.MAC, b.MAC),
		cmp.Compare(a.Source, b.Source), cmp.Compare(a.Address, b.Address))
}
