package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// VMPlacementType is the COSI type of VMPlacement.
const VMPlacementType = "VMPlacements" + typeSuffix

// VMPlacement is the durable decision on which host a VM lives. Its id is the VM's name.
type VMPlacement = typed.Resource[VMPlacementSpec, VMPlacementExtension]

// LabelHost is the label of a VMPlacement and a NetworkConfig that names its host.
const LabelHost = "host"

// VMPlacementSpec is where a VM is, or why it is nowhere. It exists for every VM.
type VMPlacementSpec struct {
	// Host is empty while nothing fits.
	Host string `json:"host,omitempty" protobuf:"1"`
	// Reason and Message say why it is here, or nowhere.
	Reason  string `json:"reason" protobuf:"2"`
	Message string `json:"message,omitempty" protobuf:"3"`
	// Hosts has the reason of each host that was refused, when none fits.
	Hosts []HostRefusal `json:"hosts,omitempty" protobuf:"4"`
	// Reserved is what the VM takes of the host's capacity.
	Reserved Capacity `json:"reserved,omitzero" protobuf:"5"`
	// Revision is the spec revision that was placed.
	Revision int64 `json:"revision" protobuf:"6"`
	// Former is the host that the VM was on when a backup was taken that this store was restored from. It may have moved since: while
	// Host is empty it is looked for on every host; with Host it was found there, and what is known of Former does not hold any more.
	Former string `json:"former,omitempty" protobuf:"7"`
}

// HostRefusal is why a VM is not on a host.
type HostRefusal struct {
	Host   string `json:"host" protobuf:"1"`
	Reason string `json:"reason" protobuf:"2"`
}

// DeepCopy implements typed.DeepCopyable.
func (s VMPlacementSpec) DeepCopy() VMPlacementSpec {
	s.Hosts = cloneSlice(s.Hosts)

	return s
}

// VMPlacementExtension supplies the definition of VMPlacement.
type VMPlacementExtension struct{}

// ResourceDefinition implements typed.Extension.
func (VMPlacementExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(VMPlacementType, NamespaceVMs, []string{"vmplacement", "vmplacements", "placement"},
		column{Name: "Host", JSONPath: "{.host}"},
		column{Name: "Reason", JSONPath: "{.reason}"})
}

// NewVMPlacement returns an empty VMPlacement with every default set.
func NewVMPlacement(id string) *VMPlacement {
	return newResource[VMPlacementSpec, VMPlacementExtension](id)
}

var _ = register[VMPlacementSpec, VMPlacementExtension]("VMPlacement", "VMPlacements", Derived, "")
