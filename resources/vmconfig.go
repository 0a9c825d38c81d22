package resources

import (
	"path"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// VMConfigType is the COSI type of VMConfig.
const VMConfigType = "VMConfigs" + typeSuffix

// VMConfig is a virtual machine as it was declared: a document of kind VM.
type VMConfig = typed.Resource[VMConfigSpec, VMConfigExtension]

// Values of VMConfigSpec.Power.
const (
	PowerRunning = "running"
	PowerStopped = "stopped"
	PowerPaused  = "paused"
)

// Values of OnCrash and OnGuestShutdown.
const (
	Restart = "restart"
	StayOff = "stay-off"
)

// Values of Disk.OnDelete.
const (
	OnDeleteKeep   = "keep"
	OnDeleteRemove = "remove"
)

// Values of Disk.Clone; empty means linked.
const (
	CloneLinked = "linked"
	CloneFull   = "full"
)

// RedactedPrefix starts what is shown in place of a secret: <redacted sha256:DIGEST>.
const RedactedPrefix = "<redacted sha256:"

// VMConfigSpec is the desired state of a VM.
type VMConfigSpec struct {
	Description string `json:"description,omitempty" protobuf:"1" doc:"what the VM is for; at most 1024 characters"`
	Power       string `json:"power" protobuf:"2" default:"running" enum:"running,stopped,paused" doc:"stopped: defined, not started; paused: started paused"`
	CPUs        int    `json:"cpus" protobuf:"3" default:"1" doc:"virtual CPUs, 1 to 512"`
	MaxCPUs     int    `json:"maxCpus,omitempty" protobuf:"4" doc:"CPUs that can be reached without a restart; default cpus"`
	Memory      Size   `json:"memory" protobuf:"5" default:"512MiB" doc:"16MiB to 64TiB; rounded up to the KiB that hypervisors count in"`
	MaxMemory   Size   `json:"maxMemory,omitempty" protobuf:"6" doc:"memory that can be reached without a restart; default memory"`
	Firmware    string `json:"firmware" protobuf:"7" default:"bios" enum:"bios,uefi"`
	Boot        *Boot  `json:"boot,omitempty" protobuf:"8" doc:"direct kernel boot"`

	Disks      []Disk      `json:"disks,omitempty" protobuf:"9"`
	Interfaces []Interface `json:"interfaces,omitempty" protobuf:"10"`
	CloudInit  *CloudInit  `json:"cloudInit,omitempty" protobuf:"11"`
	Graphics   string      `json:"graphics" protobuf:"12" default:"none" enum:"none,vnc" doc:"vnc: on a unix socket"`
	GuestAgent bool        `json:"guestAgent,omitempty" protobuf:"13" doc:"a channel for the QEMU guest agent"`
	Placement  Placement   `json:"placement,omitzero" protobuf:"14"`
	Shutdown   Shutdown    `json:"shutdown" protobuf:"15"`

	OnCrash         string `json:"onCrash" protobuf:"16" default:"restart" enum:"restart,stay-off"`
	OnGuestShutdown string `json:"onGuestShutdown" protobuf:"17" default:"restart" enum:"restart,stay-off" doc:"what a poweroff typed inside the guest leads to"`
	Protect         bool   `json:"protect,omitempty" protobuf:"18" doc:"true refuses deletion"`
	Adopt           *Adopt `json:"adopt,omitempty" protobuf:"19" doc:"take over an existing domain; {} means the one of this name"`
}

// Boot is a kernel that the host loads directly.
type Boot struct {
	Kernel  string `json:"kernel" protobuf:"1" doc:"absolute path on the host, within policy.paths"`
	Initrd  string `json:"initrd,omitempty" protobuf:"2" doc:"absolute path on the host, within policy.paths"`
	Cmdline string `json:"cmdline,omitempty" protobuf:"3"`
}

// Disk is one disk of a VM: a volume that the gateway makes (size, image), or an existing file (path).
type Disk struct {
	Name     string `json:"name" protobuf:"1"`
	Size     Size   `json:"size,omitempty" protobuf:"2" doc:"of a new volume; it only grows"`
	Image    string `json:"image,omitempty" protobuf:"3" doc:"the Image that it starts from"`
	Path     string `json:"path,omitempty" protobuf:"4" doc:"an existing file on the host, within policy.paths"`
	OnDelete string `json:"onDelete" protobuf:"5" default:"keep" enum:"keep,remove"`
	Format   string `json:"format,omitempty" protobuf:"6" doc:"of the file at path: raw, qcow2, or iso, which is a CD-ROM; default: by its name, .qcow2 and .iso, else raw"`
	Clone    string `json:"clone,omitempty" protobuf:"7" enum:"linked,full" doc:"how it starts from its image; linked (default): a qcow2 overlay on the image, its backing store; full: a copy of its own"`
}

// Interface is one network interface of a VM.
type Interface struct {
	Network string `json:"network" protobuf:"1"`
	MAC     string `json:"mac,omitempty" protobuf:"2" doc:"default: made from the VM's identity"`
	Address string `json:"address,omitempty" protobuf:"3" doc:"default: the next free one of the network's range"`
}

// CloudInit is a NoCloud seed.
type CloudInit struct {
	UserDataFile string   `json:"userDataFile,omitempty" protobuf:"1" doc:"absolute path, within policy.secretPaths"`
	UserData     string   `json:"userData,omitempty" protobuf:"2"`
	SSHKeys      []string `json:"sshKeys,omitempty" protobuf:"3"`
}

// Placement says on which hosts a VM may be.
type Placement struct {
	Host     string            `json:"host,omitempty" protobuf:"1" doc:"this host only"`
	Selector map[string]string `json:"selector,omitempty" protobuf:"2" doc:"only hosts with these labels"`
	Apart    map[string]string `json:"apart,omitempty" protobuf:"3" doc:"never on a host that has a VM with these labels"`
	Together map[string]string `json:"together,omitempty" protobuf:"4" doc:"only on a host that has a VM with these labels"`
	Spread   string            `json:"spread,omitempty" protobuf:"5" doc:"even over the values of this host label"`
}

// Shutdown is how a VM is stopped.
type Shutdown struct {
	Grace Duration `json:"grace" protobuf:"1" default:"60s" doc:"ACPI first, repeated; forced off after this time; at most 24h"`
}

// Adopt names the domain to take over.
type Adopt struct {
	Domain string `json:"domain,omitempty" protobuf:"1" doc:"its name; default the VM's"`
	UUID   string `json:"uuid,omitempty" protobuf:"2" doc:"its UUID, where the name is not enough"`
	// Gateway is the id of a gateway that is gone.
	Gateway string `json:"gateway,omitempty" protobuf:"3" doc:"the id of the gateway whose mark it carries, which must be gone for good"`
}

// DomainName is the name of the VM's domain on the hypervisor.
func (s *VMConfigSpec) DomainName(vm string) string {
	if s.Adopt != nil && s.Adopt.Domain != "" {
		return s.Adopt.Domain
	}

	return vm
}

// FormatOf tells the format of a disk's file by its name, as the hypervisor must not guess it from a guest's data.
func FormatOf(file string) string {
	switch strings.ToLower(path.Ext(file)) {
	case ".qcow2":
		return "qcow2"
	case ".iso":
		return "iso"
	default:
		return "raw"
	}
}

// DeepCopy implements typed.DeepCopyable.
func (s VMConfigSpec) DeepCopy() VMConfigSpec {
	s.Boot = clonePointer(s.Boot)
	s.Disks = cloneSlice(s.Disks)
	s.Interfaces = cloneSlice(s.Interfaces)
	s.Placement.Selector = cloneMap(s.Placement.Selector)
	s.Placement.Apart = cloneMap(s.Placement.Apart)
	s.Placement.Together = cloneMap(s.Placement.Together)
	s.Adopt = clonePointer(s.Adopt)

	if s.CloudInit != nil {
		s.CloudInit = clonePointer(s.CloudInit)
		s.CloudInit.SSHKeys = cloneSlice(s.CloudInit.SSHKeys)
	}

	return s
}

// VMConfigExtension supplies the definition of VMConfig.
type VMConfigExtension struct{}

// ResourceDefinition implements typed.Extension.
func (VMConfigExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(VMConfigType, NamespaceVMs, []string{"vm", "vms", "vmconfig"},
		column{Name: "Power", JSONPath: "{.power}"}, column{Name: "CPUs", JSONPath: "{.cpus}"}, column{Name: "Memory", JSONPath: "{.memory}"})
}

// NewVMConfig returns an empty VM with every default set.
func NewVMConfig(name string) *VMConfig { return newResource[VMConfigSpec, VMConfigExtension](name) }

var _ = register[VMConfigSpec, VMConfigExtension]("VM", "VMs", Declared, "VMStatus")
