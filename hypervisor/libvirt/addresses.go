//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// Addresses implements hypervisor.Driver. The guest agent is asked only where it is connected: one that does not answer
// holds up its domain, which is why this goes over the connections for changes.
func (d *driver) Addresses(ctx context.Context, uuid string) ([]resources.Address, error) {
	r := request{doing: "reading the addresses of domain", subject: uuid, lane: d.writes, key: domainKey(uuid)}

	return call(ctx, d, r, func(c *libvirt.Connect) ([]resources.Address, error) {
		dom, err := c.LookupDomainByUUIDString(uuid)
		if err != nil {
			return nil, err
		}
		defer freeDomain(dom)

		state, _, err := dom.GetState()
		if err != nil || isOff(state) {
			return nil, err
		}

		text, err := dom.GetXMLDesc(0)
		if err != nil {
			return nil, err
		}

		live, err := definition.Parse(text)
		if err != nil {
			return nil, err
		}

		return addressesOf(dom, live)
	})
}

func addressesOf(dom *libvirt.Domain, live *libvirtxml.Domain) ([]resources.Address, error) {
	if len(live.Devices.Interfaces) == 0 {
		return nil, nil
	}

	networks := definition.NetworksByMAC(live)

	var addresses []resources.Address

	for _, source := range []struct {
		name string
		kind libvirt.DomainInterfaceAddressesSource
		ask  bool
	}{
		{"lease", libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, true},
		{"agent", libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, definition.AgentConnected(live)},
		{"arp", libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_ARP, true},
	} {
		if !source.ask {
			continue
		}

		interfaces, err := dom.ListAllInterfaceAddresses(source.kind)
		if err != nil {
			// One source that does not answer says nothing of the others: the domain went off, its agent went away, or
			// its network is not one that libvirt looks after.
			if errors.Is(classify(err), hypervisor.ErrUnreachable) {
				return nil, err
			}

			continue
		}

		for _, i := range interfaces {
			for _, a := range i.Addrs {
				mac := strings.ToLower(i.Hwaddr)
				if usable(a.Addr) {
					addresses = append(addresses, resources.Address{Address: a.Addr, Source: source.name, Network: networks[mac], MAC: mac})
				}
			}
		}
	}

	return slices.Compact(addresses), nil
}

// usable reports whether an address can be used to reach the guest from outside of it.
func usable(text string) bool {
	a, err := netip.ParseAddr(text)

	return err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified()
}
