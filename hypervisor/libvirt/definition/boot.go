package definition

import (
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
)

const (
	firmwareBIOS = "bios"
	firmwareUEFI = "uefi"
	// efi is libvirt's word: it then chooses the firmware and makes the NVRAM itself.
	efi = "efi"
)

func firmwareOf(doc *libvirtxml.Domain) string {
	if doc.OS.Firmware == efi || (doc.OS.Loader != nil && doc.OS.Loader.Type == "pflash") {
		return firmwareUEFI
	}

	return firmwareBIOS
}

func sameFirmware(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	return firmwareOf(doc) == spec.Firmware
}

func setFirmware(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	// What libvirt chose for the other firmware must not stay: it would win over the choice.
	doc.OS.Firmware, doc.OS.FirmwareInfo, doc.OS.Loader, doc.OS.NVRam = "", nil, nil, nil

	if spec.Firmware == firmwareUEFI {
		doc.OS.Firmware = efi
	}
}

func bootOf(doc *libvirtxml.Domain) *resources.Boot {
	if doc.OS.Kernel == "" { // without one the others are of no effect
		return nil
	}

	return &resources.Boot{Kernel: doc.OS.Kernel, Initrd: doc.OS.Initrd, Cmdline: doc.OS.Cmdline}
}

func sameBoot(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	have := bootOf(doc)
	if have == nil || spec.Boot == nil {
		return have == nil && spec.Boot == nil
	}

	return *have == *spec.Boot
}

func setBoot(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	var boot resources.Boot
	if spec.Boot != nil {
		boot = *spec.Boot
	}

	doc.OS.Kernel, doc.OS.Initrd, doc.OS.Cmdline = boot.Kernel, boot.Initrd, boot.Cmdline
}

// HasNVRAM reports whether a domain has a file with its firmware's variables, which goes when the domain goes.
func HasNVRAM(doc *libvirtxml.Domain) bool {
	return doc.OS.NVRam != nil || firmwareOf(doc) == firmwareUEFI
}
