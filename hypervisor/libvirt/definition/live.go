package definition

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
)

// typeTest is the type of the domains of libvirt's test driver.
const typeTest = "test"

// HotPlug returns what can be changed of a domain of this type while it runs.
func HotPlug(domainType string) hypervisor.HotPlug {
	if domainType == typeTest {
		return hypervisor.HotPlug{CPUs: true, Memory: true}
	}

	return hypervisor.HotPlug{CPUs: true, Memory: true, Balloon: true, Devices: true}
}

// RestartRequired returns the owned fields in which a running domain differs from its definition.
func RestartRequired(live, config *libvirtxml.Domain) []string {
	running, defined := Owned(live, config)

	return hypervisor.RestartRequired(&running, &defined, HotPlug(live.Type))
}

// WaitsForGuest returns the owned fields that a running guest has yet to go along with.
func WaitsForGuest(live, config *libvirtxml.Domain) []string {
	running, defined := Owned(live, config)

	return hypervisor.WaitsForGuest(&running, &defined, HotPlug(live.Type))
}

// LiveChanges returns what has to be done so that a running domain becomes what it is defined as.
func LiveChanges(live, config *libvirtxml.Domain) []hypervisor.LiveChange {
	running, defined := Owned(live, config)

	return hypervisor.LiveChanges(&running, &defined, HotPlug(live.Type))
}

// Owned returns what we own of a running domain and of its definition, in a form in which both can be compared. A device of
// the running domain that somebody else made is ours when the definition took it over: it gets its alias with the next
// start.
func Owned(live, config *libvirtxml.Domain) (running, defined hypervisor.DomainSpec) {
	running, defined = ownedOf(live, config), ownedOf(config, config)

	if live.Type != typeTest {
		roundMemory(&running)
		roundMemory(&defined)
	}

	return running, defined
}

// roundMemory does what libvirt does when QEMU starts: memory comes in whole MiB.
func roundMemory(spec *hypervisor.DomainSpec) {
	for _, size := range []*resources.Size{&spec.Memory, &spec.MaxMemory} {
		*size = (*size + resources.MiB - 1) / resources.MiB * resources.MiB
	}
}

// ownedOf is Observe with those devices only that are ours, here or in config.
func ownedOf(doc, config *libvirtxml.Domain) hypervisor.DomainSpec {
	spec := Observe(doc)
	spec.Disks, spec.Interfaces = nil, nil

	for _, d := range disksOf(doc) {
		if name, ours := ownDisk(&d, config); ours {
			d.Name = name
			spec.Disks = append(spec.Disks, d.DomainDisk)
		}
	}

	for _, n := range interfacesOf(doc) {
		if n.ours || isOurInterface(config, n.MAC) {
			spec.Interfaces = append(spec.Interfaces, n.DomainInterface)
		}
	}

	return spec
}

// ownDisk reports whether a disk is ours, and its name among ours.
func ownDisk(d *disk, config *libvirtxml.Domain) (name string, ours bool) {
	if d.ours {
		return d.Name, true
	}

	for _, c := range disksOf(config) {
		if c.ours && c.Path != "" && c.Path == d.Path {
			return c.Name, true
		}
	}

	return "", false
}

func isOurInterface(config *libvirtxml.Domain, mac string) bool {
	return slices.ContainsFunc(interfacesOf(config), func(n nic) bool { return n.ours && n.MAC == mac })
}

// Device is one device of a domain as libvirt takes it in or lets it go.
type Device struct {
	// XML is the device as it is defined, with its address where it has one.
	XML string
	// Anywhere is the same without an address: the one of the definition may be taken in the running domain.
	Anywhere string
	// Alias is what the running domain calls it; empty where it does not have it.
	Alias string
}

// DeviceOf returns the device that a change is about. For one that changes its network the XML is that of the running
// domain, with where the definition has it.
func DeviceOf(live, config *libvirtxml.Domain, c hypervisor.LiveChange) (Device, error) {
	if c.Field == hypervisor.FieldDisks {
		return diskDevice(live, config, c)
	}

	return interfaceDevice(live, config, c)
}

func diskDevice(live, config *libvirtxml.Domain, c hypervisor.LiveChange) (Device, error) {
	var device Device

	for _, d := range disksOf(live) {
		if name, ours := ownDisk(&d, config); ours && name == c.Item {
			device.Alias = aliasOf(live.Devices.Disks[d.index].Alias)
		}
	}

	for _, d := range disksOf(config) {
		if !d.ours || d.Name != c.Item {
			continue
		}

		with := config.Devices.Disks[d.index]
		// Two devices of one order are refused, and the order only matters when the guest boots.
		with.Boot = nil
		without := with
		without.Address = nil

		return device.write(c, &with, &without)
	}

	return device, nil
}

func interfaceDevice(live, config *libvirtxml.Domain, c hypervisor.LiveChange) (Device, error) {
	var (
		device  Device
		running *libvirtxml.DomainInterface
	)

	if n := findInterface(interfacesOf(live), c.Item); n != nil {
		running = &live.Devices.Interfaces[n.index]
		device.Alias = aliasOf(running.Alias)
	}

	n := findInterface(interfacesOf(config), c.Item)
	if n == nil {
		return device, nil
	}

	with := config.Devices.Interfaces[n.index]
	with.Boot = nil

	if c.Action == hypervisor.ActionSet && running != nil {
		with = *running
		fillInterface(&with, n.DomainInterface)
	}

	without := with
	without.Address = nil

	return device.write(c, &with, &without)
}

// write returns the device with its XML in both forms.
func (d Device) write(c hypervisor.LiveChange, with, without interface{ Marshal() (string, error) }) (Device, error) {
	var err error

	if d.XML, err = with.Marshal(); err == nil {
		d.Anywhere, err = without.Marshal()
	}

	if err != nil {
		return d, fmt.Errorf("error writing the device to %s: %w", c, err)
	}

	return d, nil
}

func aliasOf(alias *libvirtxml.DomainAlias) string {
	if alias == nil {
		return ""
	}

	return alias.Name
}
