package definition_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

var (
	qemuHost = definition.Host{
		Driver: definition.DriverQEMU, Type: "kvm", OSType: "hvm", Arch: "x86_64", Emulator: "/usr/bin/qemu-system-x86_64",
		Machine: "q35", KVM: true, MaximumCPU: true,
	}
	mark = definition.Mark{Gateway: "home", VM: "web", Revision: 3}
)

// full returns a spec with every owned field.
func full() hypervisor.DomainSpec {
	spec := hypervisor.DomainSpec{
		Name: "web", UUID: hypervisor.DomainUUID("home", "web"), VM: "web", Revision: 3, Description: "a <web> & server",
		CPUs: 2, MaxCPUs: 4, Memory: resources.GiB + 1, MaxMemory: 2 * resources.GiB, Firmware: "uefi",
		Boot: &resources.Boot{Kernel: "/k", Initrd: "/i", Cmdline: "quiet"},
		Disks: []hypervisor.DomainDisk{
			{Name: "root", Path: "/images/root.qcow2", Format: "qcow2"},
			{Name: "seed", Path: "/images/seed.iso", Format: "iso", ReadOnly: true, CDROM: true},
			{Name: "data", Path: "/images/data.raw", Format: "raw", ReadOnly: true},
		},
		Interfaces: []hypervisor.DomainInterface{
			{MAC: "52:54:00:AA:00:01", Network: "lan"},
			{MAC: "52:54:00:aa:00:02", Bridge: "br0"},
		},
		Graphics: "vnc", GuestAgent: true,
	}

	return spec.Normalised()
}

// made returns the definition of a spec after a way through XML.
func made(t *testing.T, spec hypervisor.DomainSpec) *libvirtxml.Domain {
	t.Helper()

	doc, err := definition.New(&spec, qemuHost, mark)
	require.NoError(t, err)

	return reparsed(t, doc)
}

func reparsed(t *testing.T, doc *libvirtxml.Domain) *libvirtxml.Domain {
	t.Helper()

	text, err := doc.Marshal()
	require.NoError(t, err)

	again, err := definition.Parse(text)
	require.NoError(t, err)

	return again
}

func TestANewDefinitionHasEveryOwnedField(t *testing.T) {
	spec := full()
	doc := made(t, spec)

	require.Empty(t, definition.Differences(doc, &spec))
	require.Equal(t, spec, definition.Observe(doc))
	require.Equal(t, "kvm", doc.Type)
	require.Equal(t, "destroy", doc.OnCrash)
}

func TestAChangeOfOneFieldIsFoundAppliedAndNothingElse(t *testing.T) {
	for field, change := range map[string]func(*hypervisor.DomainSpec){
		hypervisor.FieldDescription: func(s *hypervisor.DomainSpec) { s.Description = "" },
		hypervisor.FieldCPUs:        func(s *hypervisor.DomainSpec) { s.CPUs = 3 },
		hypervisor.FieldMaxCPUs:     func(s *hypervisor.DomainSpec) { s.MaxCPUs = 8 },
		hypervisor.FieldMemory:      func(s *hypervisor.DomainSpec) { s.Memory = resources.MiB },
		hypervisor.FieldMaxMemory:   func(s *hypervisor.DomainSpec) { s.MaxMemory = 4 * resources.GiB },
		hypervisor.FieldFirmware:    func(s *hypervisor.DomainSpec) { s.Firmware = "bios" },
		hypervisor.FieldBoot:        func(s *hypervisor.DomainSpec) { s.Boot = nil },
		hypervisor.FieldDisks:       func(s *hypervisor.DomainSpec) { s.Disks = s.Disks[1:] },
		hypervisor.FieldInterfaces:  func(s *hypervisor.DomainSpec) { s.Interfaces[0].Network = "other" },
		hypervisor.FieldGraphics:    func(s *hypervisor.DomainSpec) { s.Graphics = "none" },
		hypervisor.FieldGuestAgent:  func(s *hypervisor.DomainSpec) { s.GuestAgent = false },
	} {
		t.Run(field, func(t *testing.T) {
			doc := made(t, full())
			spec := full()
			change(&spec)

			require.Equal(t, []string{field}, definition.Differences(doc, &spec))

			definition.Apply(doc, &spec, qemuHost)
			doc = reparsed(t, doc)
			require.Empty(t, definition.Differences(doc, &spec))
			require.Equal(t, spec, definition.Observe(doc))

			before := full()
			definition.Apply(doc, &before, qemuHost)
			require.Equal(t, before, definition.Observe(reparsed(t, doc)), "taken back")
		})
	}
}

func TestDisksKeepTheirDeviceWhileOthersComeAndGo(t *testing.T) {
	doc := made(t, full())
	slot := uint(7)
	doc.Devices.Disks[0].Address = &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Slot: &slot}}

	spec := full()
	spec.Disks = append([]hypervisor.DomainDisk{{Name: "first", Path: "/images/first.qcow2", Format: "qcow2"}}, spec.Disks...)
	definition.Apply(doc, &spec, qemuHost)

	require.Equal(t, spec.Disks, definition.Observe(reparsed(t, doc)).Disks, "in the declared order")
	require.Equal(t, "vda", doc.Devices.Disks[1].Target.Dev)
	require.Equal(t, &slot, doc.Devices.Disks[1].Address.PCI.Slot)
	require.Equal(t, "vdc", doc.Devices.Disks[0].Target.Dev, "the first free name")
}

func TestDevicesOfOthersAreLeftAlone(t *testing.T) {
	doc := made(t, full())
	doc.Devices.Disks = append(doc.Devices.Disks, libvirtxml.DomainDisk{
		Device: "disk",
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: "/by/hand.qcow2"}},
		Target: &libvirtxml.DomainDiskTarget{Dev: "vdz", Bus: "virtio"},
	})
	doc.Devices.Interfaces = append(doc.Devices.Interfaces, libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: "52:54:00:bb:00:01"},
		Source: &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: "br9"}},
	})

	spec := full()
	require.Empty(t, definition.Differences(doc, &spec), "they are no drift")

	spec.Disks, spec.Interfaces = nil, nil
	definition.Apply(doc, &spec, qemuHost)
	doc = reparsed(t, doc)
	require.Len(t, doc.Devices.Disks, 1)
	require.Equal(t, "vdz", doc.Devices.Disks[0].Target.Dev)
	require.Len(t, doc.Devices.Interfaces, 1)
}

func TestCaseV24AnAdoptedDomainThatMatchesIsNotChanged(t *testing.T) {
	doc, err := definition.Parse(adopted)
	require.NoError(t, err)

	spec := hypervisor.DomainSpec{
		Name: "Ubuntu22.04", CPUs: 2, Memory: 4 * resources.GiB,
		Disks:      []hypervisor.DomainDisk{{Name: "root", Path: "/var/lib/libvirt/images/ubuntu22.04.qcow2", Format: "qcow2"}},
		Interfaces: []hypervisor.DomainInterface{{MAC: "52:54:00:6b:3c:58", Network: "default"}},
		Graphics:   "none", GuestAgent: true,
	}
	spec = spec.Normalised()
	require.Empty(t, definition.Differences(doc, &spec))

	spec.Disks = append(spec.Disks, hypervisor.DomainDisk{Name: "data", Path: "/var/lib/libvirt/images/data.qcow2", Format: "qcow2"})
	require.Equal(t, []string{hypervisor.FieldDisks}, definition.Differences(doc, &spec))
	definition.Apply(doc, &spec, qemuHost)
	require.Len(t, doc.Devices.Disks, 3, "the CD-ROM that the spec does not name stays")
	require.Equal(t, []libvirtxml.DomainBootDevice{{Dev: "hd"}}, doc.OS.BootDevices, "and so does the order of booting")
}

func TestADefinitionThatWouldLoseSomethingIsFound(t *testing.T) {
	doc, err := definition.Parse(adopted)
	require.NoError(t, err)

	lost, err := definition.Lost(adopted, doc)
	require.NoError(t, err)
	require.Empty(t, lost, "of what libvirt writes today nothing is")

	const newer = `<domain type='kvm'><name>x</name><novelty level='3'><inside/></novelty><devices><disk device='disk' speed='9'/></devices></domain>`

	doc, err = definition.Parse(newer)
	require.NoError(t, err)

	lost, err = definition.Lost(newer, doc)
	require.NoError(t, err)
	require.Equal(t, []string{"domain/devices/disk/@speed", "domain/novelty", "domain/novelty/@level", "domain/novelty/inside"}, lost)
}

func TestWhatNeedsARestart(t *testing.T) {
	for name, test := range map[string]struct {
		running func(*libvirtxml.Domain)
		want    []string
	}{
		"nothing, where nothing differs": {func(*libvirtxml.Domain) {}, nil},
		"not the rounding of memory": {func(d *libvirtxml.Domain) {
			d.Memory.Value = (d.Memory.Value + 1023) / 1024 * 1024
			d.CurrentMemory.Value = (d.CurrentMemory.Value + 1023) / 1024 * 1024
		}, nil},
		"not a description":                     {func(d *libvirtxml.Domain) { d.Description = "old" }, nil},
		"not memory that the balloon will take": {func(d *libvirtxml.Domain) { d.CurrentMemory.Value = d.Memory.Value }, nil},
		"memory that is not there yet":          {func(d *libvirtxml.Domain) { d.CurrentMemory.Value /= 2 }, []string{hypervisor.FieldMemory}},
		"CPUs":                                  {func(d *libvirtxml.Domain) { d.VCPU.Current = 1 }, []string{hypervisor.FieldCPUs}},
		"a kernel":                              {func(d *libvirtxml.Domain) { d.OS.Kernel = "/old" }, []string{hypervisor.FieldBoot}},
		"a disk that is not plugged in":         {func(d *libvirtxml.Domain) { d.Devices.Disks = d.Devices.Disks[1:] }, []string{hypervisor.FieldDisks}},
		"not a device of somebody else": {func(d *libvirtxml.Domain) {
			d.Devices.Interfaces = append(d.Devices.Interfaces, libvirtxml.DomainInterface{})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config, live := made(t, full()), made(t, full())
			test.running(live)
			require.Equal(t, test.want, definition.RestartRequired(live, config))
		})
	}
}

// adopted is a domain as virt-manager makes it, as libvirt 9 writes it.
const adopted = `<domain type='kvm'>
  <name>Ubuntu22.04</name>
  <uuid>3f0c1c3e-8f3a-4b6b-9d3c-1c3f7b1d2a10</uuid>
  <metadata>
    <libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">
      <libosinfo:os id="http://ubuntu.com/ubuntu/22.04"/>
    </libosinfo:libosinfo>
  </metadata>
  <memory unit='KiB'>4194304</memory>
  <currentMemory unit='KiB'>4194304</currentMemory>
  <vcpu placement='static'>2</vcpu>
  <os>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
    <apic/>
    <vmport state='off'/>
  </features>
  <cpu mode='host-passthrough' check='none' migratable='on'/>
  <clock offset='utc'>
    <timer name='rtc' tickpolicy='catchup'/>
    <timer name='pit' tickpolicy='delay'/>
    <timer name='hpet' present='no'/>
  </clock>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <pm>
    <suspend-to-mem enabled='no'/>
    <suspend-to-disk enabled='no'/>
  </pm>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' discard='unmap'/>
      <source file='/var/lib/libvirt/images/ubuntu22.04.qcow2'/>
      <target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>
    </disk>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw'/>
      <target dev='sda' bus='sata'/>
      <readonly/>
      <address type='drive' controller='0' bus='0' target='0' unit='0'/>
    </disk>
    <controller type='usb' index='0' model='qemu-xhci' ports='15'>
      <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/>
    </controller>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'>
      <model name='pcie-root-port'/>
      <target chassis='1' port='0x10'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0' multifunction='on'/>
    </controller>
    <controller type='virtio-serial' index='0'>
      <address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/>
    </controller>
    <interface type='network'>
      <mac address='52:54:00:6b:3c:58'/>
      <source network='default'/>
      <model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
    <serial type='pty'>
      <target type='isa-serial' port='0'>
        <model name='isa-serial'/>
      </target>
    </serial>
    <console type='pty'>
      <target type='serial' port='0'/>
    </console>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
      <address type='virtio-serial' controller='0' bus='0' port='1'/>
    </channel>
    <input type='tablet' bus='usb'>
      <address type='usb' bus='0' port='1'/>
    </input>
    <graphics type='spice' autoport='yes'>
      <listen type='address'/>
      <image compression='off'/>
    </graphics>
    <sound model='ich9'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x1b' function='0x0'/>
    </sound>
    <audio id='1' type='spice'/>
    <video>
      <model type='qxl' ram='65536' vram='65536' vgamem='16384' heads='1' primary='yes'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/>
    </video>
    <redirdev bus='usb' type='spicevmc'>
      <address type='usb' bus='0' port='2'/>
    </redirdev>
    <watchdog model='itco' action='reset'/>
    <memballoon model='virtio'>
      <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/>
    </memballoon>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
      <address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/>
    </rng>
  </devices>
  <seclabel type='dynamic' model='dac' relabel='yes'/>
</domain>`

func TestALastDefinitionThatCannotBeUnpackedIsRefused(t *testing.T) {
	spec := (&hypervisor.DomainSpec{Name: "web", CPUs: 1, Memory: resources.GiB}).Normalised()

	fresh, err := definition.New(&spec, qemuHost, mark)
	require.NoError(t, err)

	for want, last := range map[string][]byte{
		"error unpacking a definition: ":                                                []byte("nonsense"),
		"error unpacking a definition: it has 4194305 bytes, at most 4194304 are taken": definition.Pack(strings.Repeat("x", 4<<20+1)),
	} {
		_, err := definition.Again(last, fresh, &spec, qemuHost, mark)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "%!")
	}
}
