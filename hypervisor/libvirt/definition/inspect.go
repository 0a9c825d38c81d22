package definition

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// Inspect returns the owned fields of a definition with those devices only that a document can name, and what else is in
// it. What a definition gets from libvirt by itself is not named.
func Inspect(doc *libvirtxml.Domain) (spec hypervisor.DomainSpec, beyond []string) {
	spec = Observe(doc)
	spec.Disks, spec.Interfaces = nil, nil

	for _, d := range disksOf(doc) {
		if why := unnameableDisk(&doc.Devices.Disks[d.index], d); why != "" {
			beyond = append(beyond, fmt.Sprintf("disk %s: %s", cmp.Or(d.Name, "without a name"), why))

			continue
		}

		d.Foreign = !d.ours
		spec.Disks = append(spec.Disks, d.DomainDisk)
	}

	for _, n := range interfacesOf(doc) {
		if n.Network == "" && n.Bridge == "" || n.MAC == "" {
			beyond = append(beyond, fmt.Sprintf("interface %s: it is on neither a network nor a bridge of the host", cmp.Or(n.MAC, "without a MAC")))

			continue
		}

		n.Foreign = !n.ours
		spec.Interfaces = append(spec.Interfaces, n.DomainInterface)
	}

	beyond = append(beyond, consoles(doc)...)
	beyond = append(beyond, elements(*doc, "", usualElements)...)
	beyond = append(beyond, elements(*doc.Devices, "device ", usualDevices)...)

	return spec, beyond
}

// unnameableDisk returns why a document can't name a disk; empty: it can.
func unnameableDisk(device *libvirtxml.DomainDisk, d disk) string {
	switch {
	case device.Device != "" && device.Device != deviceDisk && device.Device != deviceCDROM:
		return "it is a " + device.Device
	case d.CDROM && d.Path == "":
		return "there is no medium in it"
	case device.Source == nil || device.Source.File == nil && device.Source.Block == nil:
		return "it is neither a file nor a device of the host"
	case d.Path == "":
		return "it has no file"
	case d.CDROM && d.Format != formatISO, !d.CDROM && d.Format != formatRaw && d.Format != "qcow2":
		return "its format is " + d.Format
	case d.ReadOnly && !d.CDROM:
		return "it is read-only"
	default:
		return ""
	}
}

// consoles names the graphics and channels that are not those which documents speak of.
func consoles(doc *libvirtxml.Domain) (beyond []string) {
	for _, g := range doc.Devices.Graphics {
		switch {
		case isSocketVNC(g):
		case g.VNC != nil:
			beyond = append(beyond, "graphics: VNC over TCP")
		case g.Spice != nil:
			beyond = append(beyond, "graphics: SPICE")
		default:
			beyond = append(beyond, "graphics")
		}
	}

	for _, c := range doc.Devices.Channels {
		if isAgent(c) {
			continue
		}

		name := "without a name"
		if c.Target != nil && c.Target.VirtIO != nil {
			name = c.Target.VirtIO.Name
		}

		beyond = append(beyond, "channel "+name)
	}

	return beyond
}

// usualElements and usualDevices are told of otherwise, or are in every definition.
var (
	usualElements = []string{
		"domain", "type", "id", "name", "uuid", "description", "metadata", "memory", "currentMemory", "vcpu", "vcpus", "os", "features",
		"clock", "on_poweroff", "on_reboot", "on_crash", "pm", "devices", "seclabel", "resource",
	}
	usualDevices = []string{
		"emulator", "disk", "controller", "interface", "serial", "console", "channel", "input", "graphics", "audio", "video", "memballoon",
		"rng", "panic", "-",
	}
)

// elements names the elements that a part of a definition has and that are not usual.
func elements(part any, kind string, usual []string) (names []string) {
	v := reflect.ValueOf(part)

	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("xml"), ",")
		name = cmp.Or(name, strings.ToLower(field.Name))

		if v.Field(i).IsZero() || slices.Contains(usual, name) {
			continue
		}

		if field.Type.Kind() == reflect.Slice && v.Field(i).Len() > 1 {
			name = fmt.Sprintf("%s (%d)", name, v.Field(i).Len())
		}

		names = append(names, kind+name)
	}

	return names
}
