package definition

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// spareRootPorts is how many devices can be plugged into a running q35 or virt machine: such a machine has no free slot
// that was not defined beforehand.
const spareRootPorts = 8

// New returns the definition of a domain that does not exist yet, with every owned field as spec has it and sensible
// values for all others. spec is normalised.
func New(spec *hypervisor.DomainSpec, host Host, mark Mark) (*libvirtxml.Domain, error) {
	doc := &libvirtxml.Domain{
		Type: host.Type,
		Name: spec.Name,
		UUID: spec.UUID,
		OS: &libvirtxml.DomainOS{
			Type: &libvirtxml.DomainOSType{Type: host.OSType, Arch: host.Arch, Machine: host.Machine},
		},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}},
		CPU:      cpuModel(host),
		Clock:    &libvirtxml.DomainClock{Offset: "utc"},
		// The gateway decides what follows a crash or a power-off. A reboot is the guest's own affair.
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices: &libvirtxml.DomainDeviceList{
			Emulator: host.Emulator,
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
			}},
		},
	}

	if host.IsQEMU() {
		addQEMUDevices(doc, spec, host)
	}

	Apply(doc, spec, host)

	if err := SetMark(doc, mark); err != nil {
		return nil, err
	}

	return doc, nil
}

// Emulate changes a definition of type kvm to software emulation.
func Emulate(doc *libvirtxml.Domain, host Host) {
	host = host.Emulated()
	doc.Type = host.Type
	doc.CPU = cpuModel(host)
}

func cpuModel(host Host) *libvirtxml.DomainCPU {
	switch {
	case host.Type == typeKVM:
		return &libvirtxml.DomainCPU{Mode: "host-model"}
	case host.Type == typeQEMU && host.MaximumCPU:
		return &libvirtxml.DomainCPU{Mode: "maximum"}
	default:
		return nil
	}
}

func addQEMUDevices(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, host Host) {
	devices := doc.Devices

	devices.RNGs = []libvirtxml.DomainRNG{{
		Model:   "virtio",
		Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
	}}
	devices.MemBalloon = &libvirtxml.DomainMemBalloon{Model: "virtio"}

	if spec.Graphics == graphicsNone {
		devices.Controllers = append(devices.Controllers, libvirtxml.DomainController{Type: "usb", Model: "none"})
	}

	if host.Machine == "" {
		return
	}

	if host.Machine == "q35" {
		doc.Features.APIC = &libvirtxml.DomainFeatureAPIC{}
		// The guest's kernel tells of its panic through this device: without it a crash is silence.
		devices.Panics = []libvirtxml.DomainPanic{{Model: "isa"}}
	}

	// The bus itself has to be named first where ports on it are.
	root := uint(0)
	devices.Controllers = append(devices.Controllers, libvirtxml.DomainController{Type: "pci", Index: &root, Model: "pcie-root"})

	// Random numbers, balloon, and the serial controller of the agent take a port each, as do disks and interfaces.
	ports := spareRootPorts + 3 + len(spec.Disks) + len(spec.Interfaces)
	for range ports {
		devices.Controllers = append(devices.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
	}
}

// Parse reads the definition of a domain.
func Parse(text string) (*libvirtxml.Domain, error) {
	doc := &libvirtxml.Domain{}
	if err := doc.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("error reading the definition of a domain: %w", err)
	}

	if doc.Devices == nil {
		doc.Devices = &libvirtxml.DomainDeviceList{}
	}

	if doc.OS == nil {
		doc.OS = &libvirtxml.DomainOS{}
	}

	return doc, nil
}
