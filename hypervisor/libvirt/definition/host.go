package definition

import (
	"fmt"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// Host is what new domains on a hypervisor are made of.
type Host struct {
	// Driver is the hypervisor's own name: QEMU, TEST.
	Driver string
	// Type of new domains: kvm, qemu, test.
	Type string
	// OSType and Arch as the capabilities name them.
	OSType, Arch string
	Emulator     string
	// Machine is the type of new domains' boards; empty: the hypervisor's choice.
	Machine string
	// KVM reports whether the capabilities have domains of type kvm.
	KVM bool
	// MaximumCPU reports whether libvirt knows the CPU mode "maximum" (7.1 or newer).
	MaximumCPU bool
}

// Names that hypervisors give themselves.
const (
	DriverQEMU = "QEMU"
	driverTest = "TEST"
)

// Types of domains.
const (
	typeKVM  = "kvm"
	typeQEMU = "qemu"
)

// IsQEMU reports whether the devices and features of QEMU can be asked for. Otherwise it is libvirt's test driver.
func (h Host) IsQEMU() bool { return h.Driver == DriverQEMU }

// Emulated returns the host as it is without KVM.
func (h Host) Emulated() Host {
	h.KVM = false

	if h.Type == typeKVM {
		h.Type = typeQEMU
	}

	return h
}

// ParseHost reads the capabilities of a hypervisor. libVersion is its libvirt's, as 9000000 for 9.0.0.
func ParseHost(driver, capabilities string, libVersion uint32) (Host, error) {
	var caps libvirtxml.Caps

	if err := caps.Unmarshal(capabilities); err != nil {
		return Host{}, fmt.Errorf("error reading the capabilities: %w", err)
	}

	if driver != DriverQEMU && driver != driverTest {
		return Host{}, fmt.Errorf("%w: the hypervisor is %s: only QEMU and libvirt's test driver are", hypervisor.ErrUnsupported, driver)
	}

	h := Host{Driver: driver, OSType: "hvm", MaximumCPU: libVersion >= 7_001_000}

	if caps.Host.CPU != nil {
		h.Arch = caps.Host.CPU.Arch
	}

	guest := chooseGuest(caps.Guests, h.Arch)
	if guest == nil {
		return Host{}, fmt.Errorf("the hypervisor offers no guests of architecture %q", h.Arch)
	}

	h.Arch, h.Emulator = guest.Arch.Name, guest.Arch.Emulator

	for _, domain := range guest.Arch.Domains {
		switch domain.Type {
		case typeKVM:
			h.KVM, h.Type = true, typeKVM
		default:
			if h.Type == "" {
				h.Type = domain.Type
			}
		}
	}

	if h.Type == "" {
		return Host{}, fmt.Errorf("the hypervisor offers no type of domain for architecture %q", h.Arch)
	}

	if h.IsQEMU() {
		h.Machine = machines[h.Arch]
	} else {
		h.Emulator = ""
	}

	return h, nil
}

// machines are the boards with PCI Express, by architecture; others get the hypervisor's default.
var machines = map[string]string{"x86_64": "q35", "i686": "q35", "aarch64": "virt", "riscv64": "virt"}

// chooseGuest prefers guests of the host's own architecture.
func chooseGuest(guests []libvirtxml.CapsGuest, arch string) *libvirtxml.CapsGuest {
	var first *libvirtxml.CapsGuest

	for i := range guests {
		if guests[i].OSType != "hvm" {
			continue
		}

		if guests[i].Arch.Name == arch {
			return &guests[i]
		}

		if first == nil {
			first = &guests[i]
		}
	}

	return first
}
