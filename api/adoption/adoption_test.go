package adoption_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api/adoption"
	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
)

const uuid = "3f0c1c3e-8f3a-4b6b-9d3c-1c3f7b1d2a10"

// domain returns a domain of this name on host a.
func domain(name string, change func(*adoption.Domain)) adoption.Domain {
	d := adoption.Domain{Host: "a", Inspection: hypervisor.Inspection{Domain: hypervisor.Domain{
		Name: name, UUID: uuid, State: resources.StateRunning,
		Spec: hypervisor.DomainSpec{Name: name, UUID: uuid, CPUs: 2, MaxCPUs: 2, Memory: resources.GiB, MaxMemory: resources.GiB, Firmware: "bios", Graphics: "none"},
	}}}
	if change != nil {
		change(&d)
	}

	return d
}

func nothing() adoption.Declared {
	return adoption.Declared{
		VMs: map[string]*resources.VMConfig{}, Statuses: map[string]*resources.VMStatus{}, Networks: map[string]*resources.Network{},
		OnHosts: map[string][]hypervisor.Network{"a": {{Name: "default", Active: true}, {Name: "Office Net", Active: true}, {Name: "lan", Active: true}}},
	}
}

// yamlOf returns the documents as they are printed, and requires that they can be applied.
func yamlOf(t *testing.T, d adoption.Documents) string {
	t.Helper()

	var parts []string

	for _, item := range d.Items {
		text, err := item.YAML()
		require.NoError(t, err)

		parts = append(parts, string(text))
	}

	all := strings.Join(parts, "---\n")
	documents, err := config.Decode("import.yaml", []byte(all))
	require.NoError(t, err)
	require.Len(t, documents, len(d.Items))

	return all
}

func remarksOf(d adoption.Documents) string {
	var lines []string
	for _, r := range d.Remarks {
		lines = append(lines, r.Object+" "+r.Text)
	}

	return strings.Join(lines, "\n")
}

func TestNamesOfVMs(t *testing.T) {
	long := strings.Repeat("a", 70)

	for name, want := range map[string]string{
		"web": "web", "Windows10": "windows10", "ubuntu22.04": "ubuntu22-04", "my_vm": "my-vm", "Windows 10 (old)": "windows-10-old",
		"-x-": "x", "日本": "vm", long: long[:63],
	} {
		t.Run(name, func(t *testing.T) {
			made := adoption.Make([]adoption.Domain{domain(name, nil)}, nothing())
			require.Contains(t, yamlOf(t, made), "name: "+want+"\n")

			spec, err := json.Marshal(made.Items[0].Spec)
			require.NoError(t, err)

			var read resources.VMConfigSpec
			require.NoError(t, json.Unmarshal(spec, &read))
			require.Equal(t, &resources.Adopt{Domain: name, UUID: uuid}, read.Adopt)
		})
	}
}

func TestTwoDomainsNeverGetOneName(t *testing.T) {
	declared := nothing()
	declared.VMs["my-vm"], declared.Statuses["my-vm"] = resources.NewVMConfig("my-vm"), resources.NewVMStatus("my-vm")
	declared.Statuses["my-vm"].TypedSpec().DomainUUID = "another"

	text := yamlOf(t, adoption.Make([]adoption.Domain{domain("my_vm", nil), domain("my.vm", nil), domain("my vm", func(d *adoption.Domain) { d.VM = "my-vm-2" })}, declared))
	for _, name := range []string{"name: my-vm-2\n", "name: my-vm-3\n", "name: my-vm-4\n"} {
		require.Equal(t, 1, strings.Count(text, name), text)
	}
}

func TestEverythingThatADocumentCanSayIsInIt(t *testing.T) {
	made := adoption.Make([]adoption.Domain{domain("Full", func(d *adoption.Domain) {
		d.State = resources.StatePaused
		d.Beyond = []string{"device tpm"}
		d.Spec = hypervisor.DomainSpec{
			Description: "a: description", CPUs: 2, MaxCPUs: 4, Memory: resources.GiB, MaxMemory: 2 * resources.GiB, Firmware: "uefi", Graphics: "vnc", GuestAgent: true,
			Boot: &resources.Boot{Kernel: "/boot/vmlinuz", Cmdline: "quiet"},
			Disks: []hypervisor.DomainDisk{
				{Name: "vda", Path: "/images/root.qcow2", Format: "qcow2", Foreign: true},
				{Name: "vdb", Path: "/images/data.img", Format: "qcow2", Foreign: true},
				{Name: "sda", Path: "/images/seed.iso", Format: "iso", CDROM: true, ReadOnly: true, Foreign: true},
				{Name: "sdb", Format: "iso", CDROM: true, Foreign: true},
			},
			Interfaces: []hypervisor.DomainInterface{
				{MAC: "52:54:00:AA:00:01", Network: "default", Foreign: true}, {MAC: "52:54:00:aa:00:02", Network: "Office Net", Foreign: true},
				{MAC: "52:54:00:aa:00:03", Bridge: "br0", Foreign: true}, {MAC: "52:54:00:aa:00:04", Network: "gone", Foreign: true},
				{MAC: "52:54:00:aa:00:05", Foreign: true},
			},
		}
	})}, nothing())

	require.Equal(t, `apiVersion: gateway/v1alpha1
kind: Network
metadata:
  name: br0
spec:
  mode: bridge
  bridge: br0
---
apiVersion: gateway/v1alpha1
kind: Network
metadata:
  name: default
spec:
  mode: existing
---
apiVersion: gateway/v1alpha1
kind: Network
metadata:
  name: gone
spec:
  mode: existing
---
apiVersion: gateway/v1alpha1
kind: Network
metadata:
  name: office-net
spec:
  mode: existing
  network: Office Net
---
apiVersion: gateway/v1alpha1
kind: VM
metadata:
  name: full
spec:
  description: 'a: description'
  power: paused
  cpus: 2
  maxCpus: 4
  memory: 1GiB
  maxMemory: 2GiB
  firmware: uefi
  boot:
    kernel: /boot/vmlinuz
    cmdline: quiet
  disks:
  - name: vda
    path: /images/root.qcow2
    onDelete: keep
  - name: vdb
    path: /images/data.img
    onDelete: keep
    format: qcow2
  - name: sda
    path: /images/seed.iso
    onDelete: keep
  interfaces:
  - network: default
    mac: 52:54:00:aa:00:01
  - network: office-net
    mac: 52:54:00:aa:00:02
  - network: br0
    mac: 52:54:00:aa:00:03
  - network: gone
    mac: 52:54:00:aa:00:04
  graphics: vnc
  guestAgent: true
  placement:
    host: a
  adopt:
    domain: Full
    uuid: 3f0c1c3e-8f3a-4b6b-9d3c-1c3f7b1d2a10
`, strings.ReplaceAll(yamlOf(t, made), `"`, "'"))
	require.Equal(t, "Network/gone network gone of host a is missing or not active: the domain is adopted once it is\n"+
		"VM/full it stays as it is and is not in the document: device tpm; disk sdb; interface 52:54:00:aa:00:05", remarksOf(made))
}

func TestNetworksThatAreDeclaredAreUsed(t *testing.T) {
	declared := nothing()

	for name, spec := range map[string]resources.NetworkSpec{
		"office": {Mode: resources.NetworkExisting, Network: "Office Net"},
		"uplink": {Mode: resources.NetworkBridge, Bridge: "br0"},
		"lan":    {Mode: resources.NetworkNAT, Subnet: "10.7.0.0/24"},
	} {
		n := resources.NewNetwork(name)
		*n.TypedSpec() = spec
		declared.Networks[name] = n
	}

	d := domain("x", func(d *adoption.Domain) {
		d.Spec.Interfaces = []hypervisor.DomainInterface{
			{MAC: "52:54:00:aa:00:01", Network: "Office Net"}, {MAC: "52:54:00:aa:00:02", Bridge: "br0"}, {MAC: "52:54:00:aa:00:03", Network: "lan"},
		}
	})

	text := yamlOf(t, adoption.Make([]adoption.Domain{d}, declared))
	require.Contains(t, text, "- network: office\n")
	require.Contains(t, text, "- network: uplink\n")
	require.Equal(t, 1, strings.Count(text, "kind: Network"), "one that somebody else made is not the one that is declared: %s", text)
	require.Contains(t, text, "name: lan-2\nspec:\n  mode: existing\n  network: lan\n")

	declared.OnHosts["a"][2].Ours = true
	require.NotContains(t, yamlOf(t, adoption.Make([]adoption.Domain{d}, declared)), "kind: Network")
}

func TestAVMThatIsDeclaredKeepsWhatNoDomainTells(t *testing.T) {
	declared := nothing()
	vm := resources.NewVMConfig("web-1")
	vm.Metadata().Labels().Set("tier", "web")
	resources.SetOrigin(vm.Metadata(), resources.Origin{Source: resources.OriginFile, Name: "/etc/gateway/web.yaml"})
	*vm.TypedSpec() = resources.VMConfigSpec{
		Power: resources.PowerRunning, CPUs: 9, Memory: 9 * resources.GiB, Firmware: "bios", Graphics: "none", OnCrash: resources.StayOff, OnGuestShutdown: resources.Restart,
		Shutdown: resources.Shutdown{Grace: 5e9}, Disks: []resources.Disk{{Name: "root", Size: resources.GiB, OnDelete: resources.OnDeleteKeep}, {Name: "data", Size: resources.GiB, OnDelete: resources.OnDeleteKeep}},
		CloudInit: &resources.CloudInit{UserData: "secret"}, Placement: resources.Placement{Selector: map[string]string{"rack": "r1"}},
	}
	declared.VMs["web-1"] = vm

	made := adoption.Make([]adoption.Domain{domain("web-1", func(d *adoption.Domain) {
		d.Gateway, d.Inspection.VM = "lost", "web-1"
		d.State = resources.StateStopped
		d.Spec.Disks = []hypervisor.DomainDisk{{Name: "root", Path: "/images/gateway-lost/web-1.root.qcow2", Format: "qcow2"}, {Name: "data", Path: "/images/data.img", Format: "raw", Foreign: true}}
	})}, declared)
	text := yamlOf(t, made)

	for _, want := range []string{"tier: web", "onCrash: stay-off", "grace: 5s", "cpus: 2\n", "memory: 1GiB", "- name: root\n    size: 1GiB", "- name: data-2\n    path: /images/data.img", "gateway: lost", "host: a",
		"gateway/replaces: file:/etc/gateway/web.yaml"} {
		require.Contains(t, text, want)
	}

	for _, not := range []string{"secret", "power", "rack"} {
		require.NotContains(t, text, not)
	}

	require.Contains(t, remarksOf(made), "it carries the mark of gateway lost: apply its document only if that gateway is gone for good")
	require.Contains(t, remarksOf(made), "VM/web-1 it is declared by file:/etc/gateway/web.yaml: write its document there")
}

func TestADomainThatNoDocumentCanDeclareIsSaid(t *testing.T) {
	made := adoption.Make([]adoption.Domain{domain("tiny", func(d *adoption.Domain) { d.Spec.Memory, d.Spec.MaxMemory = resources.MiB, resources.MiB })}, nothing())
	require.Empty(t, made.Items)
	require.Contains(t, remarksOf(made), "it can't be adopted: spec.memory: 1MiB is not between")
}

func TestADescriptionThatNoDocumentCanSayStays(t *testing.T) {
	made := adoption.Make([]adoption.Domain{domain("talker", func(d *adoption.Domain) { d.Spec.Description = strings.Repeat("x", 2000) })}, nothing())
	require.NotContains(t, yamlOf(t, made), "description")
	require.Contains(t, remarksOf(made), "description: 2000 characters")
}
