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

// Sources of addresses: what the gateway gave out, what a DHCP server did, and what the guest's agent says.
const (
	sourceDeclared = "declared"
	sourceLease    = "lease"
	sourceAgent    = "agent"
)

// readAddresses takes what is known of the VM's addresses into the status. The hypervisor is asked only while an address is
// missing, and asked again only in the first minutes after a start, and while it still has a lease that is no longer the VM's.
func (p *pass) readAddresses(ctx context.Context) error {
	known := p.declaredAddresses()

	if p.domain == nil || p.domain.State != resources.StateRunning {
		p.setAddresses(known)

		return nil
	}

	for _, a := range p.status.Addresses {
		if a.Source != sourceDeclared && p.hasInterface(a.MAC) && !p.isStale(a) {
			known = append(known, a)
		}
	}

	if p.addressesMissing(known) {
		found, err := p.driver.Addresses(ctx, p.uuid())

		switch {
		case errors.Is(err, hypervisor.ErrUnsupported):
			p.setAddresses(known)

			return nil
		case err != nil:
			return fmt.Errorf("error reading the addresses of VM %q: %w", p.id, err)
		}

		fresh := slices.DeleteFunc(slices.Clone(found), p.isStale)
		known = append(p.declaredAddresses(), p.named(fresh)...)

		if since := p.now.Sub(p.status.Started); p.addressesMissing(known) && since < leaseWait {
			p.after(min(max(since/4, leasePollMin), leasePollMax))
		} else if len(fresh) < len(found) {
			p.after(leasePollMax) // a guest renews its lease soon, or it ends
		}
	}

	p.setAddresses(known)

	return nil
}

// isStale reports whether an address is a lease of an interface that has another address by now: the guest, or the one that
// had its MAC before, has not renewed it yet.
func (p *pass) isStale(a resources.Address) bool {
	b := p.binding(a.MAC)

	return a.Source == sourceLease && b != nil && b.Ours && b.Address != "" && a.Address != b.Address
}

// named returns addresses with the networks as documents name them.
func (p *pass) named(addresses []resources.Address) []resources.Address {
	for i := range addresses {
		if b := p.binding(addresses[i].MAC); b != nil {
			addresses[i].Network = b.Network
		}
	}

	return addresses
}

// binding returns what an interface of the VM was given; nil: there is none with this MAC.
func (p *pass) binding(mac string) *resources.NetworkBinding {
	if p.network == nil {
		return nil
	}

	bindings := p.network.TypedSpec().Interfaces

	i := slices.IndexFunc(bindings, func(b resources.NetworkBinding) bool { return strings.EqualFold(b.MAC, mac) })
	if i < 0 {
		return nil
	}

	return &bindings[i]
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

// addressesMissing reports whether an interface has no address that was seen among known, or the guest agent, where there
// is one, has not said any.
func (p *pass) addressesMissing(known []resources.Address) bool {
	if p.network == nil || len(p.spec.Interfaces) == 0 {
		return false
	}

	if p.spec.GuestAgent && !slices.ContainsFunc(known, func(a resources.Address) bool { return a.Source == sourceAgent }) {
		return true
	}

	return slices.ContainsFunc(p.network.TypedSpec().Interfaces, func(b resources.NetworkBinding) bool {
		return !slices.ContainsFunc(known, func(a resources.Address) bool {
			return a.Source != sourceDeclared && strings.EqualFold(a.MAC, b.MAC)
		})
	})
}

func (p *pass) hasInterface(mac string) bool { return p.binding(mac) != nil }

func compareAddresses(a, b resources.Address) int {
	return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.MAC, b.MAC),
		cmp.Compare(a.Source, b.Source), cmp.Compare(a.Address, b.Address))
}
