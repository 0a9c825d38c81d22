package definition

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"time"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
)

// noPing tells dnsmasq not to ping an address before it offers it: the gateway knows who has which, and the wait doubles
// the time until a guest has its address.
const noPing = "no-ping"

// SetNetwork writes to a network's definition what the gateway owns of it. doc may be empty.
func SetNetwork(doc *libvirtxml.Network, spec *hypervisor.NetworkSpec, host Host) error {
	subnet, err := netip.ParsePrefix(spec.Subnet)
	if err != nil {
		return fmt.Errorf("error reading the subnet of network %q: %w: %w", spec.Name, hypervisor.ErrInvalid, err)
	}

	doc.Name, doc.UUID = spec.Name, spec.UUID
	doc.Forward = nil

	if spec.Mode == resources.NetworkNAT {
		doc.Forward = &libvirtxml.NetworkForward{Mode: "nat"}
	}

	if doc.Bridge == nil {
		doc.Bridge = &libvirtxml.NetworkBridge{STP: "on", Delay: "0"}
	}

	doc.Bridge.Name = spec.Bridge
	doc.Domain = nil

	if spec.Domain != "" {
		doc.Domain = &libvirtxml.NetworkDomain{Name: spec.Domain, LocalOnly: "yes"}
	}

	hosts := UniqueHosts(spec.Hosts)
	ip := libvirtxml.NetworkIP{
		Address: subnet.Masked().Addr().Next().String(),
		Netmask: net.IP(net.CIDRMask(subnet.Bits(), subnet.Addr().BitLen())).String(),
		DHCP: &libvirtxml.NetworkDHCP{
			Ranges: []libvirtxml.NetworkDHCPRange{{
				Start: spec.First, End: spec.Last,
				Lease: &libvirtxml.NetworkDHCPLease{Expiry: uint(hypervisor.LeaseTime / time.Minute), Unit: "minutes"},
			}},
		},
	}
	doc.DNS = &libvirtxml.NetworkDNS{}

	for _, h := range hosts {
		ip.DHCP.Hosts = append(ip.DHCP.Hosts, *dhcpHost(h))

		if h.Name != "" {
			doc.DNS.Host = append(doc.DNS.Host, *dnsHost(h))
		}
	}

	doc.IPs = []libvirtxml.NetworkIP{ip}

	if host.IsQEMU() {
		doc.DnsmasqOptions = &libvirtxml.NetworkDnsmasqOptions{Option: []libvirtxml.NetworkDnsmasqOption{{Value: noPing}}}
	}

	return nil
}

// SameNetwork reports whether two definitions of a network differ in their hosts at most.
func SameNetwork(a, b *libvirtxml.Network) bool {
	return frameOf(a) == frameOf(b)
}

// frame is what we own of a network without its hosts, in one form.
type frame struct {
	uuid, mode, bridge, domain, address, first, last string
	bits                                             int
	dnsmasq                                          bool
}

func frameOf(doc *libvirtxml.Network) frame {
	f := frame{uuid: doc.UUID, dnsmasq: doc.DnsmasqOptions != nil}

	if doc.Forward != nil {
		f.mode = cmp.Or(doc.Forward.Mode, "nat")
	}

	if doc.Bridge != nil {
		f.bridge = doc.Bridge.Name
	}

	if doc.Domain != nil {
		f.domain = doc.Domain.Name
	}

	if len(doc.IPs) != 1 {
		return f
	}

	ip := doc.IPs[0]
	f.address, f.bits = ip.Address, int(ip.Prefix)

	if mask := net.ParseIP(ip.Netmask).To4(); mask != nil {
		f.bits, _ = net.IPMask(mask).Size()
	}

	if ip.DHCP != nil && len(ip.DHCP.Ranges) == 1 {
		f.first, f.last = ip.DHCP.Ranges[0].Start, ip.DHCP.Ranges[0].End
	}

	return f
}

// ParseNetwork reads the definition of a network.
func ParseNetwork(text string) (*libvirtxml.Network, error) {
	doc := &libvirtxml.Network{}
	if err := doc.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("error reading the definition of a network: %w", err)
	}

	return doc, nil
}
