package definition

import (
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// Observe returns the owned fields of a definition, normalised. Devices of others are in it too.
func Observe(doc *libvirtxml.Domain) hypervisor.DomainSpec {
	mark, _ := MarkOf(doc.Metadata)
	spec := hypervisor.DomainSpec{
		Name:        doc.Name,
		UUID:        doc.UUID,
		VM:          mark.VM,
		Revision:    mark.Revision,
		Description: doc.Description,
		Firmware:    firmwareOf(doc),
		Boot:        bootOf(doc),
		Graphics:    graphicsOf(doc),
		GuestAgent:  hasAgent(doc),
	}
	spec.CPUs, spec.MaxCPUs = cpusOf(doc)
	spec.Memory, spec.MaxMemory = memoryOf(doc)

	for _, d := range disksOf(doc) {
		d.Foreign = !d.ours
		spec.Disks = append(spec.Disks, d.DomainDisk)
	}

	for _, n := range interfacesOf(doc) {
		n.Foreign = !n.ours
		spec.Interfaces = append(spec.Interfaces, n.DomainInterface)
	}

	return spec
}
