package definition

import (
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
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
		spec.Disks = append(spec.Disks, d.DomainDisk)
	}

	for _, n := range interfacesOf(doc) {
		spec.Interfaces = append(spec.Interfaces, n.DomainInterface)
	}

	return spec
}

// RestartRequired returns the owned fields in which a running domain differs from its definition. Devices of others don't
// count, and texts never need a restart.
func RestartRequired(live, config *libvirtxml.Domain) []string {
	running, defined := ownedOf(live), ownedOf(config)

	if live.Type != typeTest {
		roundMemory(&running)
		roundMemory(&defined)

		// Where only the balloon is to take memory away a restart changes nothing: the guest starts with all of it.
		if running.MaxMemory == defined.MaxMemory && running.Memory > defined.Memory {
			running.Memory = defined.Memory
		}
	}

	return running.Differences(&defined)
}

const typeTest = "test"

// roundMemory does what libvirt does when QEMU starts: memory comes in whole MiB.
func roundMemory(spec *hypervisor.DomainSpec) {
	for _, size := range []*resources.Size{&spec.Memory, &spec.MaxMemory} {
		*size = (*size + resources.MiB - 1) / resources.MiB * resources.MiB
	}
}

// ownedOf is Observe without what is not ours, and without what never needs a restart.
func ownedOf(doc *libvirtxml.Domain) hypervisor.DomainSpec {
	spec := Observe(doc)
	spec.VM, spec.Revision, spec.Description = "", 0, ""
	spec.Disks, spec.Interfaces = nil, nil

	for _, d := range disksOf(doc) {
		if d.ours {
			spec.Disks = append(spec.Disks, d.DomainDisk)
		}
	}

	for _, n := range interfacesOf(doc) {
		if n.ours {
			spec.Interfaces = append(spec.Interfaces, n.DomainInterface)
		}
	}

	slices.SortFunc(spec.Disks, func(a, b hypervisor.DomainDisk) int { return strings.Compare(a.Name, b.Name) })

	return spec
}
