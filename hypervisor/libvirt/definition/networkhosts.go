package definition

import (
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// HostsOf returns the static DHCP entries of a network.
func HostsOf(doc *libvirtxml.Network) []hypervisor.NetworkHost {
	var hosts []hypervisor.NetworkHost

	for _, ip := range doc.IPs {
		if ip.DHCP == nil {
			continue
		}

		for _, h := range ip.DHCP.Hosts {
			hosts = append(hosts, hypervisor.NetworkHost{MAC: strings.ToLower(h.MAC), Address: h.IP, Name: h.Name})
		}
	}

	return hosts
}

// UniqueHosts returns the hosts in libvirt's form: MACs in lower case, and a name only at its first host, because libvirt
// refuses a second one. A VM with two interfaces on a network is found under the address of the first.
func UniqueHosts(hosts []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	named := map[string]bool{}
	unique := slices.Clone(hosts)

	for i := range unique {
		unique[i].MAC = strings.ToLower(unique[i].MAC)

		if named[unique[i].Name] {
			unique[i].Name = ""
		}

		named[unique[i].Name] = true
	}

	return unique
}

// HostChange is one change of a network's hosts.
type HostChange struct {
	// DNS reports whether it is about a DNS entry, else about a DHCP one.
	DNS bool
	// Add reports whether the entry comes, else it goes.
	Add bool
	XML string
}

// HostChanges returns what turns the hosts of a network into the wanted ones: first what goes, so that addresses and names
// are free for what comes.
func HostChanges(doc *libvirtxml.Network, want []hypervisor.NetworkHost) ([]HostChange, error) {
	want = UniqueHosts(want)
	have := HostsOf(doc)
	known, named := dnsOf(doc), namesOf(want)

	var changes []HostChange

	for _, step := range []struct {
		list     []hypervisor.NetworkHost
		dns, add bool
	}{
		{list: missing(known, named), dns: true},
		{list: missing(have, want)},
		{list: missing(want, have), add: true},
		{list: missing(named, known), dns: true, add: true},
	} {
		for _, h := range step.list {
			text, err := hostXML(h, step.dns)
			if err != nil {
				return nil, fmt.Errorf("error writing host %s of network %q: %w", h.Address, doc.Name, err)
			}

			changes = append(changes, HostChange{DNS: step.dns, Add: step.add, XML: text})
		}
	}

	return changes, nil
}

// GoneHosts returns the hosts of a network whose MAC or address is another one among the wanted ones, or none.
func GoneHosts(doc *libvirtxml.Network, want []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	return missing(withoutNames(HostsOf(doc)), withoutNames(UniqueHosts(want)))
}

func withoutNames(hosts []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	bare := slices.Clone(hosts)
	for i := range bare {
		bare[i].Name = ""
	}

	return bare
}

// missing returns what of list is not among others.
func missing(list, others []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	among := make(map[hypervisor.NetworkHost]bool, len(others))
	for _, h := range others {
		among[h] = true
	}

	return slices.DeleteFunc(slices.Clone(list), func(h hypervisor.NetworkHost) bool { return among[h] })
}

// dnsOf returns the DNS entries of a network as hosts without MAC.
func dnsOf(doc *libvirtxml.Network) []hypervisor.NetworkHost {
	if doc.DNS == nil {
		return nil
	}

	var hosts []hypervisor.NetworkHost

	for _, h := range doc.DNS.Host {
		for _, name := range h.Hostnames {
			hosts = append(hosts, hypervisor.NetworkHost{Address: h.IP, Name: name.Hostname})
		}
	}

	return hosts
}

func namesOf(hosts []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	var names []hypervisor.NetworkHost

	for _, h := range hosts {
		if h.Name != "" {
			names = append(names, hypervisor.NetworkHost{Address: h.Address, Name: h.Name})
		}
	}

	return names
}

func hostXML(h hypervisor.NetworkHost, dns bool) (string, error) {
	if dns {
		return dnsHost(h).Marshal()
	}

	return dhcpHost(h).Marshal()
}

func dhcpHost(h hypervisor.NetworkHost) *libvirtxml.NetworkDHCPHost {
	return &libvirtxml.NetworkDHCPHost{MAC: h.MAC, IP: h.Address, Name: h.Name}
}

func dnsHost(h hypervisor.NetworkHost) *libvirtxml.NetworkDNSHost {
	return &libvirtxml.NetworkDNSHost{IP: h.Address, Hostnames: []libvirtxml.NetworkDNSHostHostname{{Hostname: h.Name}}}
}
