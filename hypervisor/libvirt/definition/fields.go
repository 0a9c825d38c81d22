package definition

import (
	"cmp"
	"math"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
)

// field is one owned field: how it is read from a definition and written to it.
type field struct {
	name string
	same func(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool
	set  func(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, host Host)
}

// fields are all owned fields but name and mark, which are changed by calls of their own.
var fields = []field{
	{
		name: hypervisor.FieldDescription,
		same: func(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
			return doc.Description == spec.Description
		},
		set: func(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
			doc.Description = spec.Description
		},
	},
	{name: hypervisor.FieldMaxCPUs, same: sameMaxCPUs, set: setCPUs},
	{name: hypervisor.FieldCPUs, same: sameCPUs, set: setCPUs},
	{name: hypervisor.FieldMaxMemory, same: sameMaxMemory, set: setMemory},
	{name: hypervisor.FieldMemory, same: sameMemory, set: setMemory},
	{name: hypervisor.FieldFirmware, same: sameFirmware, set: setFirmware},
	{name: hypervisor.FieldBoot, same: sameBoot, set: setBoot},
	{name: hypervisor.FieldDisks, same: sameDisks, set: setDisks},
	{name: hypervisor.FieldCloudInit, same: sameSeed, set: setDisks},
	{name: hypervisor.FieldInterfaces, same: sameInterfaces, set: setInterfaces},
	{name: hypervisor.FieldGraphics, same: sameGraphics, set: setGraphics},
	{name: hypervisor.FieldGuestAgent, same: sameGuestAgent, set: setGuestAgent},
}

// Differences returns the owned fields in which a definition differs from a normalised spec, without name and mark.
func Differences(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) []string {
	var names []string

	for _, f := range fields {
		if !f.same(doc, spec) {
			names = append(names, f.name)
		}
	}

	return names
}

// Apply changes what differs in the owned fields of a definition, and nothing else.
func Apply(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, host Host) {
	for _, f := range fields {
		if !f.same(doc, spec) {
			f.set(doc, spec, host)
		}
	}
}

func sameCPUs(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	current, _ := cpusOf(doc)

	return current == spec.CPUs
}

func sameMaxCPUs(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	_, most := cpusOf(doc)

	return most == spec.MaxCPUs
}

func cpusOf(doc *libvirtxml.Domain) (current, most int) {
	if doc.VCPU == nil {
		return 0, 0
	}

	return int(cmp.Or(doc.VCPU.Current, doc.VCPU.Value)), int(doc.VCPU.Value)
}

func setCPUs(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	if doc.VCPU == nil {
		doc.VCPU = &libvirtxml.DomainVCPU{}
	}

	doc.VCPU.Value, doc.VCPU.Current = uint(spec.MaxCPUs), 0
	if spec.CPUs != spec.MaxCPUs {
		doc.VCPU.Current = uint(spec.CPUs)
	}

	// The list of single CPUs repeats the counts, and libvirt refuses one that contradicts them.
	doc.VCPUs = nil
}

func sameMemory(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	current, _ := memoryOf(doc)

	return current == spec.Memory
}

func sameMaxMemory(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	_, most := memoryOf(doc)

	return most == spec.MaxMemory
}

// memoryOf returns what libvirt calls currentMemory and memory.
func memoryOf(doc *libvirtxml.Domain) (current, most resources.Size) {
	if doc.Memory != nil {
		most = sizeOf(uint64(doc.Memory.Value), doc.Memory.Unit)
	}

	current = most
	if doc.CurrentMemory != nil {
		current = sizeOf(uint64(doc.CurrentMemory.Value), doc.CurrentMemory.Unit)
	}

	return current, most
}

func setMemory(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	if doc.Memory == nil {
		doc.Memory = &libvirtxml.DomainMemory{}
	}

	doc.Memory.Value, doc.Memory.Unit = kib(spec.MaxMemory), unitKiB
	doc.CurrentMemory = &libvirtxml.DomainCurrentMemory{Value: kib(spec.Memory), Unit: unitKiB}
}

const unitKiB = "KiB"

func kib(size resources.Size) uint { return uint((size + resources.KiB - 1) / resources.KiB) }

// sizeOf reads a scaled integer. libvirt always writes KiB for memory and bytes for volumes; others write what they like.
func sizeOf(value uint64, unit string) resources.Size {
	factor := map[string]uint64{
		"": 1 << 10, "b": 1, "bytes": 1, "KB": 1e3, "k": 1 << 10, unitKiB: 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20,
		"GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40,
	}[unit]

	if factor != 0 && value > math.MaxInt64/factor {
		return math.MaxInt64
	}

	return resources.Size(value * factor)
}
