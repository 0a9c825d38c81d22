package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// Prefixes of the aliases by which our devices are known again. libvirt keeps aliases that start with "ua-".
const (
	diskAlias      = "ua-disk-"
	interfaceAlias = "ua-nic-"
)

const (
	deviceDisk  = "disk"
	deviceCDROM = "cdrom"
	formatRaw   = "raw"
	formatISO   = "iso"
)

// disk is a disk of a definition as the port describes it.
type disk struct {
	hypervisor.DomainDisk
	// ours reports whether the gateway made the device. Others are left alone, unless a spec names their path.
	ours bool
	// order is the boot order; 0: none.
	order uint
	index int
}

// disksOf returns the disks of a definition in their declared order, which is the boot order: libvirt sorts the devices
// themselves by bus and name.
func disksOf(doc *libvirtxml.Domain) []disk {
	disks := make([]disk, 0, len(doc.Devices.Disks))

	for i := range doc.Devices.Disks {
		disks = append(disks, diskOf(&doc.Devices.Disks[i], i))
	}

	slices.SortStableFunc(disks, func(a, b disk) int {
		if a.order == 0 || b.order == 0 {
			return cmp.Compare(b.order, a.order)
		}

		return cmp.Compare(a.order, b.order)
	})

	return disks
}

func diskOf(device *libvirtxml.DomainDisk, index int) disk {
	d := disk{index: index}

	if device.Alias != nil {
		d.Name, d.ours = strings.CutPrefix(device.Alias.Name, diskAlias)
	}

	if !d.ours {
		d.Name = ""

		if device.Target != nil {
			d.Name = device.Target.Dev
		}
	}

	if device.Source != nil && device.Source.File != nil {
		d.Path = device.Source.File.File
	}

	if device.Source != nil && device.Source.Block != nil {
		d.Path = device.Source.Block.Dev
	}

	if device.Boot != nil {
		d.order = device.Boot.Order
	}

	d.Format = formatRaw
	if device.Driver != nil && device.Driver.Type != "" {
		d.Format = device.Driver.Type
	}

	d.ReadOnly = device.ReadOnly != nil
	d.CDROM = device.Device == deviceCDROM

	if d.CDROM && d.Format == formatRaw {
		d.Format = formatISO
	}

	return d
}

// driverFormat is the format as QEMU calls it.
func driverFormat(format string) string {
	if format == formatISO || format == "" {
		return formatRaw
	}

	return format
}

// find returns the disk of a definition that a spec means: ours of that name, or another one with that file.
func find(disks []disk, want hypervisor.DomainDisk) *disk {
	for i := range disks {
		if disks[i].ours && disks[i].Name == want.Name {
			return &disks[i]
		}
	}

	for i := range disks {
		if !disks[i].ours && disks[i].Path == want.Path && disks[i].CDROM == want.CDROM {
			return &disks[i]
		}
	}

	return nil
}

func sameDisk(have *disk, want hypervisor.DomainDisk) bool {
	return have.Path == want.Path && have.CDROM == want.CDROM && driverFormat(have.Format) == driverFormat(want.Format) &&
		// A CD-ROM is always read-only.
		(have.CDROM || have.ReadOnly == want.ReadOnly)
}

// isSeed reports whether a disk is the one that cloud-init reads.
func (d *disk) isSeed() bool { return d.ours && d.Name == hypervisor.SeedDisk }

func sameDisks(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	disks := slices.DeleteFunc(disksOf(doc), func(d disk) bool { return d.isSeed() })

	return matchDisks(disks, spec.WithoutSeed().Disks)
}

func sameSeed(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	disks := slices.DeleteFunc(disksOf(doc), func(d disk) bool { return !d.isSeed() })

	return matchDisks(disks, spec.OnlySeed().Disks)
}

// matchDisks reports whether a definition has exactly the disks that are wanted, and those of others where they are named.
func matchDisks(disks []disk, wanted []hypervisor.DomainDisk) bool {
	var (
		matched int
		last    uint
	)

	for _, want := range wanted {
		have := find(disks, want)
		if have == nil || !sameDisk(have, want) {
			return false
		}

		if !have.ours {
			continue
		}

		if have.order != 0 && have.order < last {
			return false
		}

		last = have.order
		matched++
	}

	for _, d := range disks {
		if d.ours {
			matched--
		}
	}

	return matched == 0
}

func setDisks(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, host Host) {
	have := disksOf(doc)
	ordered := orderedBoot(doc, have, spec)
	kept := make([]libvirtxml.DomainDisk, 0, len(spec.Disks))
	used := map[int]bool{}

	for i, want := range spec.Disks {
		var device libvirtxml.DomainDisk

		if d := find(have, want); d != nil && d.CDROM == want.CDROM {
			device = doc.Devices.Disks[d.index]
			used[d.index] = true
		}

		fillDisk(&device, want)

		// Nothing boots from a seed.
		if ordered && want.Name != hypervisor.SeedDisk {
			device.Boot = &libvirtxml.DomainDeviceBoot{Order: uint(i + 1)}
		}

		kept = append(kept, device)
	}

	for _, d := range have {
		if !d.ours && !used[d.index] {
			kept = append(kept, doc.Devices.Disks[d.index])
		}
	}

	nameTargets(kept, host)
	doc.Devices.Disks = kept
	addSCSI(doc, host)
}

// busSCSI is where a seed is: kernels that are made for clouds have no driver for SATA, and all have the one for this.
const busSCSI = "scsi"

// addSCSI gives a definition that has something on the SCSI bus the controller that guests know. libvirt would choose another.
func addSCSI(doc *libvirtxml.Domain, host Host) {
	needed := slices.ContainsFunc(doc.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.Target != nil && d.Target.Bus == busSCSI })
	there := slices.ContainsFunc(doc.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == busSCSI })

	if needed && !there && host.IsQEMU() {
		doc.Devices.Controllers = append(doc.Devices.Controllers, libvirtxml.DomainController{Type: busSCSI, Model: "virtio-scsi"})
	}
}

// orderedBoot reports whether the order of the disks is ours to say: a definition in which others chose boot devices
// keeps their choice, because libvirt refuses a mixture.
func orderedBoot(doc *libvirtxml.Domain, have []disk, spec *hypervisor.DomainSpec) bool {
	for _, d := range have {
		if !d.ours {
			return false
		}
	}

	for _, nic := range doc.Devices.Interfaces {
		if nic.Boot != nil {
			return false
		}
	}

	if len(spec.Disks) > 0 {
		doc.OS.BootDevices = nil
	}

	return true
}

func fillDisk(device *libvirtxml.DomainDisk, want hypervisor.DomainDisk) {
	device.Device = deviceDisk
	device.ReadOnly = nil

	if want.CDROM {
		device.Device = deviceCDROM
	}

	if want.ReadOnly || want.CDROM {
		device.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}

	if device.Alias == nil {
		device.Alias = &libvirtxml.DomainAlias{Name: diskAlias + want.Name}
	}

	if device.Driver == nil {
		device.Driver = &libvirtxml.DomainDiskDriver{Name: "qemu"}

		if !want.CDROM {
			device.Driver.Discard = "unmap"
		}
	}

	device.Driver.Type = driverFormat(want.Format)

	if device.Source == nil || device.Source.File == nil || device.Source.File.File != want.Path {
		// A new file has nothing of the old one: encryption, labels, and slices belong to the file.
		device.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: want.Path}}
		device.BackingStore, device.Mirror = nil, nil
	}
}

// nameTargets gives new disks the first free names: vda, vdb, … for disks, sda, … for CD-ROMs.
func nameTargets(disks []libvirtxml.DomainDisk, host Host) {
	taken := map[string]bool{}

	for _, d := range disks {
		if d.Target != nil {
			taken[d.Target.Dev] = true
		}
	}

	for i := range disks {
		if disks[i].Target != nil {
			continue
		}

		prefix, bus := "vd", "virtio"
		if disks[i].Device == deviceCDROM {
			prefix, bus = "sd", cdromBus(host)
		}

		if disks[i].Alias != nil && disks[i].Alias.Name == diskAlias+hypervisor.SeedDisk {
			bus = busSCSI
		}

		for n := 0; ; n++ {
			if name := prefix + letters(n); !taken[name] {
				taken[name] = true
				disks[i].Target = &libvirtxml.DomainDiskTarget{Dev: name, Bus: bus}

				break
			}
		}
	}
}

// cdromBus is SATA where the board has it.
func cdromBus(host Host) string {
	if host.Machine == "virt" {
		return busSCSI
	}

	return "sata"
}

// letters counts as disks do: a … z, aa, ab, …
func letters(n int) string {
	text := ""

	for ; n >= 0; n = n/26 - 1 {
		text = fmt.Sprintf("%c%s", 'a'+n%26, text)
	}

	return text
}

// HasDisk reports whether a domain has a file as a disk.
func HasDisk(doc *libvirtxml.Domain, path string) bool {
	return slices.ContainsFunc(disksOf(doc), func(d disk) bool { return d.Path == path })
}

// FilesByTarget returns the files of a domain's disks by the name that the guest's disk has: vda.
func FilesByTarget(doc *libvirtxml.Domain) map[string]string {
	files := map[string]string{}

	for _, d := range disksOf(doc) {
		if target := doc.Devices.Disks[d.index].Target; target != nil {
			files[target.Dev] = d.Path
		}
	}

	return files
}
