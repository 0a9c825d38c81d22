//go:build libvirt_dlopen

package libvirt

import (
	"slices"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// changeLive brings into effect on a running domain what was changed and needs no restart, and returns the fields that do.
// What the hypervisor refuses is no error: the field is then one that needs a restart. It is tried once, when the field
// changes: a guest without a balloon would otherwise be asked at every look.
func (d *driver) changeLive(dom *libvirt.Domain, wanted *hypervisor.DomainSpec, fields []string) ([]string, error) {
	live, config, err := readBoth(dom)
	if err != nil {
		return nil, err
	}

	running := definition.Observe(live)
	changed := false

	// CPUs are only ever added: taking one away waits for the guest, and has crashed QEMU 7.2.
	if slices.Contains(fields, hypervisor.FieldCPUs) && running.CPUs < wanted.CPUs && wanted.CPUs <= running.MaxCPUs {
		changed = dom.SetVcpusFlags(uint(wanted.CPUs), libvirt.DOMAIN_VCPU_LIVE) == nil
	}

	if slices.Contains(fields, hypervisor.FieldMemory) && d.canBalloon(&running, wanted) {
		changed = dom.SetMemoryFlags(uint64(wanted.Memory/resources.KiB), libvirt.DOMAIN_MEM_LIVE) == nil || changed
	}

	if changed {
		if live, config, err = readBoth(dom); err != nil {
			return nil, err
		}
	}

	return definition.RestartRequired(live, config), nil
}

// canBalloon reports whether the memory of a running domain can be set within what it was started with. Only QEMU's
// balloon also takes memory away, as far as the guest goes along.
func (d *driver) canBalloon(running, wanted *hypervisor.DomainSpec) bool {
	if running.MaxMemory != wanted.MaxMemory || wanted.Memory > running.MaxMemory {
		return false
	}

	return running.Memory < wanted.Memory || (running.Memory > wanted.Memory && d.madeOf().IsQEMU())
}

// readBoth reads what runs of a domain, and what it is defined as.
func readBoth(dom *libvirt.Domain) (live, config *libvirtxml.Domain, err error) {
	for _, half := range []struct {
		flags libvirt.DomainXMLFlags
		doc   **libvirtxml.Domain
	}{{0, &live}, {libvirt.DOMAIN_XML_INACTIVE, &config}} {
		text, err := dom.GetXMLDesc(half.flags)
		if err != nil {
			return nil, nil, err
		}

		if *half.doc, err = definition.Parse(text); err != nil {
			return nil, nil, err
		}
	}

	return live, config, nil
}
