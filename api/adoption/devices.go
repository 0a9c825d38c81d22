package adoption

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
)

// disks are the disks of a domain that a document can name: by their path, or, where they are volumes that are declared,
// as they are declared.
func disks(d *Domain, declared []resources.Disk) []resources.Disk {
	var (
		list  []resources.Disk
		taken = map[string]bool{}
	)

	for _, disk := range declared {
		taken[disk.Name] = true // a volume can't become a file
	}

	for _, have := range d.Spec.Disks {
		at := slices.IndexFunc(declared, func(disk resources.Disk) bool { return disk.Name == have.Name && disk.Path == "" })
		if at >= 0 && !have.Foreign {
			list = append(list, declared[at])

			continue
		}

		if have.Path == "" || path.Clean(have.Path) != have.Path || have.ReadOnly && !have.CDROM {
			d.Beyond = append(d.Beyond, fmt.Sprintf("disk %s", have.Name))

			continue
		}

		if len(list) == resources.MaxDisks {
			d.Beyond = append(d.Beyond, fmt.Sprintf("disk %s: a document has %d disks at most", have.Name, resources.MaxDisks))

			continue
		}

		disk := resources.Disk{Name: free(label(have.Name, "disk"), taken), Path: have.Path, OnDelete: resources.OnDeleteKeep}
		taken[disk.Name] = true

		if have.Format != resources.FormatOf(have.Path) {
			disk.Format = have.Format
		}

		list = append(list, disk)
	}

	return list
}

// attachment is what an interface is on: a network of libvirt's, or a bridge.
type attachment struct{ network, bridge string }

// interfaces are the interfaces of a domain. The documents of what they are on come with them.
func (m *maker) interfaces(d *Domain) []resources.Interface {
	var list []resources.Interface

	for _, have := range d.Spec.Interfaces {
		if have.Network == "" && have.Bridge == "" {
			d.Beyond = append(d.Beyond, "interface "+have.MAC)

			continue
		}

		if len(list) == resources.MaxNICs {
			d.Beyond = append(d.Beyond, fmt.Sprintf("interface %s: a document has %d interfaces at most", have.MAC, resources.MaxNICs))

			continue
		}

		list = append(list, resources.Interface{Network: m.network(d, attachment{have.Network, have.Bridge}), MAC: strings.ToLower(have.MAC)})
	}

	return list
}

// network returns the name of the document for what an interface is on, which it makes where none is declared.
func (m *maker) network(d *Domain, a attachment) string {
	if name := m.networks[a]; name != "" {
		return name
	}

	name, spec := m.networkFor(d, a)
	m.networks[a] = name
	m.taken[name] = true

	if spec == nil {
		return name
	}

	m.made.Items = append(m.made.Items, config.Object{
		APIVersion: resources.APIVersion, Kind: "Network", Metadata: config.ObjectMetadata{Name: name}, Spec: short{spec, &resources.NetworkSpec{}},
	})

	if a.network != "" && !slices.ContainsFunc(m.declared.OnHosts[d.Host], func(n hypervisor.Network) bool { return n.Name == a.network && n.Active }) {
		m.remark(d, "Network/"+name, "network %s of host %s is missing or not active: the domain is adopted once it is", a.network, d.Host)
	}

	return name
}

// networkFor returns the name of a network's document, and its spec unless it is declared.
func (m *maker) networkFor(d *Domain, a attachment) (string, *resources.NetworkSpec) {
	for _, name := range resources.SortedKeys(m.declared.Networks) {
		if m.means(d.Host, name, a) {
			return name, nil
		}
	}

	if a.bridge != "" {
		return free(label(a.bridge, "bridge"), m.taken), &resources.NetworkSpec{Mode: resources.NetworkBridge, Bridge: a.bridge}
	}

	name := free(label(a.network, "network"), m.taken)
	spec := &resources.NetworkSpec{Mode: resources.NetworkExisting}

	if name != a.network {
		spec.Network = a.network
	}

	return name, spec
}

// means reports whether a declared network is what an interface is on.
func (m *maker) means(host, name string, a attachment) bool {
	spec := m.declared.Networks[name].TypedSpec()

	switch {
	case spec.Mode == resources.NetworkBridge:
		return a.bridge != "" && spec.Bridge == a.bridge
	case spec.LibvirtNetwork(name) != a.network || a.network == "":
		return false
	case spec.Mode == resources.NetworkExisting:
		return true
	default:
		return slices.ContainsFunc(m.declared.OnHosts[host], func(n hypervisor.Network) bool { return n.Name == name && n.Ours })
	}
}
