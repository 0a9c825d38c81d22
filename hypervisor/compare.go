package hypervisor

import (
	"slices"
	"strings"

	"gateway/resources"
)

// Names of the owned fields, as DefineResult and Domain.RestartRequired have them. Those that a VM's document has are
// called as there.
const (
	FieldName        = "name"
	FieldDescription = "description"
	FieldCPUs        = "cpus"
	FieldMaxCPUs     = "maxCpus"
	FieldMemory      = "memory"
	FieldMaxMemory   = "maxMemory"
	FieldFirmware    = "firmware"
	FieldBoot        = "boot"
	FieldDisks       = "disks"
	FieldCloudInit   = "cloudInit"
	FieldInterfaces  = "interfaces"
	FieldGraphics    = "graphics"
	FieldGuestAgent  = "guestAgent"
	// FieldMark is the mark: gateway, VM and revision. It never needs a restart.
	FieldMark = "mark"
)

// Normalised returns the spec as a hypervisor keeps it: defaults written out, memory in whole KiB, MACs in lower case.
// Specs are compared in this form only. What it returns shares nothing with s.
func (s DomainSpec) Normalised() DomainSpec {
	s.Adopt, s.AdoptFrom, s.Insist, s.Last = false, "", false, nil
	s.MaxCPUs = max(s.MaxCPUs, s.CPUs)
	s.Memory = wholeKiB(s.Memory)
	s.MaxMemory = max(wholeKiB(s.MaxMemory), s.Memory)
	s.Disks = slices.Clone(s.Disks)
	s.Interfaces = slices.Clone(s.Interfaces)

	if s.Firmware == "" {
		s.Firmware = "bios"
	}

	if s.Graphics == "" {
		s.Graphics = "none"
	}

	if s.Boot != nil {
		boot := *s.Boot
		s.Boot = &boot
	}

	for i := range s.Interfaces {
		s.Interfaces[i].MAC = strings.ToLower(s.Interfaces[i].MAC)
	}

	return s
}

// Differences returns the owned fields in which two normalised specs differ, in the order of the constants. A maximum that
// just follows its amount in both is not named beside it: nobody has declared it.
func (s *DomainSpec) Differences(other *DomainSpec) []string {
	var fields []string

	note := func(field string, same bool) {
		if !same {
			fields = append(fields, field)
		}
	}

	note(FieldName, s.Name == other.Name)
	note(FieldDescription, s.Description == other.Description)
	note(FieldCPUs, s.CPUs == other.CPUs)
	note(FieldMaxCPUs, s.MaxCPUs == other.MaxCPUs || s.MaxCPUs == s.CPUs && other.MaxCPUs == other.CPUs)
	note(FieldMemory, s.Memory == other.Memory)
	note(FieldMaxMemory, s.MaxMemory == other.MaxMemory || s.MaxMemory == s.Memory && other.MaxMemory == other.Memory)
	note(FieldFirmware, s.Firmware == other.Firmware)
	note(FieldBoot, sameBoot(s.Boot, other.Boot))
	note(FieldDisks, sameDisks(withoutSeed(s.Disks), withoutSeed(other.Disks)))
	note(FieldCloudInit, sameDisks(seedOf(s.Disks), seedOf(other.Disks)))
	note(FieldInterfaces, sameInterfaces(s.Interfaces, other.Interfaces))
	note(FieldGraphics, s.Graphics == other.Graphics)
	note(FieldGuestAgent, s.GuestAgent == other.GuestAgent)
	note(FieldMark, s.VM == other.VM && s.Revision == other.Revision)

	return fields
}

func sameBoot(a, b *resources.Boot) bool {
	if a == nil || b == nil {
		return a == b
	}

	return *a == *b
}

// MayTake reports whether a definition with this spec may take over a domain with the mark of another gateway; an empty id
// is no mark.
func (s *DomainSpec) MayTake(gateway string) bool {
	return gateway == "" && s.Adopt || gateway != "" && gateway == s.AdoptFrom
}

func wholeKiB(size resources.Size) resources.Size {
	return (size + resources.KiB - 1) / resources.KiB * resources.KiB
}
