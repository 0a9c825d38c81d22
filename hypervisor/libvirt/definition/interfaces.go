package definition

import (
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// nic is an interface of a definition as the port describes it.
type nic struct {
	hypervisor.DomainInterface
	ours  bool
	index int
}

func interfacesOf(doc *libvirtxml.Domain) []nic {
	nics := make([]nic, 0, len(doc.Devices.Interfaces))

	for i := range doc.Devices.Interfaces {
		device := &doc.Devices.Interfaces[i]
		n := nic{index: i}

		if device.Alias != nil {
			n.ours = strings.HasPrefix(device.Alias.Name, interfaceAlias)
		}

		if device.MAC != nil {
			n.MAC = strings.ToLower(device.MAC.Address)
		}

		if device.Source != nil && device.Source.Network != nil {
			n.Network = device.Source.Network.Network
		}

		if device.Source != nil && device.Source.Bridge != nil {
			n.Bridge = device.Source.Bridge.Bridge
		}

		nics = append(nics, n)
	}

	return nics
}

func findInterface(nics []nic, mac string) *nic {
	for i := range nics {
		if nics[i].MAC == mac {
			return &nics[i]
		}
	}

	return nil
}

func sameInterfaces(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	nics := interfacesOf(doc)
	ours, last := 0, -1

	for _, n := range nics {
		if n.ours {
			ours++
		}
	}

	for _, want := range spec.Interfaces {
		have := findInterface(nics, want.MAC)
		if have == nil || have.DomainInterface != want || have.index < last {
			return false
		}

		last = have.index

		if have.ours {
			ours--
		}
	}

	return ours == 0
}

func setInterfaces(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	have := interfacesOf(doc)
	kept := make([]libvirtxml.DomainInterface, 0, len(spec.Interfaces))
	used := map[int]bool{}

	for _, want := range spec.Interfaces {
		var device libvirtxml.DomainInterface

		if n := findInterface(have, want.MAC); n != nil {
			device = doc.Devices.Interfaces[n.index]
			used[n.index] = true

			if n.DomainInterface == want {
				kept = append(kept, device)

				continue
			}
		}

		fillInterface(&device, want)
		kept = append(kept, device)
	}

	for _, n := range have {
		if !n.ours && !used[n.index] {
			kept = append(kept, doc.Devices.Interfaces[n.index])
		}
	}

	doc.Devices.Interfaces = kept
}

func fillInterface(device *libvirtxml.DomainInterface, want hypervisor.DomainInterface) {
	if device.MAC == nil {
		device.MAC = &libvirtxml.DomainInterfaceMAC{Address: want.MAC}
		device.Model = &libvirtxml.DomainInterfaceModel{Type: "virtio"}
		device.Alias = &libvirtxml.DomainAlias{Name: interfaceAlias + strings.ReplaceAll(want.MAC, ":", "")}
	}

	// Port groups, virtual ports and VLANs belong to the network that the interface was on.
	device.VirtualPort, device.VLan = nil, nil

	if want.Bridge != "" {
		device.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: want.Bridge}}

		return
	}

	device.Source = &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: want.Network}}
}

// NetworksByMAC returns the networks of a domain's interfaces; bridges have none.
func NetworksByMAC(doc *libvirtxml.Domain) map[string]string {
	networks := map[string]string{}
	for _, n := range interfacesOf(doc) {
		networks[n.MAC] = n.Network
	}

	return networks
}
