package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// NetworkConfigType is the COSI type of NetworkConfig.
const NetworkConfigType = "NetworkConfigs" + typeSuffix

// NetworkConfig holds the MAC and the address of each interface of a VM. Its id is the VM's name.
type NetworkConfig = typed.Resource[NetworkConfigSpec, NetworkConfigExtension]

// NetworkConfigSpec is what the networks of one VM are: its addresses, and whether its host has them.
type NetworkConfigSpec struct {
	Host       string           `json:"host" protobuf:"1"`
	Interfaces []NetworkBinding `json:"interfaces,omitempty" protobuf:"2"`
	// Ready reports whether every network exists on the host with the VM's entries in it.
	Ready   bool   `json:"ready" protobuf:"3"`
	Reason  string `json:"reason" protobuf:"4"`
	Message string `json:"message,omitempty" protobuf:"5"`
	// Revision is the spec revision of the VM that this is for.
	Revision int64 `json:"revision" protobuf:"6"`
	// Retiring are bindings that the VM no longer has and its domain, or the host, may still have: they keep what they
	// stand for until then.
	Retiring []NetworkBinding `json:"retiring,omitempty" protobuf:"7"`
}

// NetworkBinding is one interface of a VM with what was allocated for it.
type NetworkBinding struct {
	Network string `json:"network" protobuf:"1"`
	MAC     string `json:"mac" protobuf:"2"`
	// Address is empty on networks whose addresses the gateway does not give out.
	Address string `json:"address,omitempty" protobuf:"3"`
	// Bridge is the host's bridge device, where the interface is on one directly.
	Bridge string `json:"bridge,omitempty" protobuf:"4"`
	// LibvirtNetwork is the network's name on the hypervisor; empty with Bridge.
	LibvirtNetwork string `json:"libvirtNetwork,omitempty" protobuf:"5"`
	// Ours reports whether the gateway made the network and so may remove it.
	Ours bool `json:"ours,omitempty" protobuf:"6"`
}

// DeepCopy implements typed.DeepCopyable.
func (s NetworkConfigSpec) DeepCopy() NetworkConfigSpec {
	s.Interfaces, s.Retiring = cloneSlice(s.Interfaces), cloneSlice(s.Retiring)

	return s
}

// NetworkConfigExtension supplies the definition of NetworkConfig.
type NetworkConfigExtension struct{}

// ResourceDefinition implements typed.Extension.
func (NetworkConfigExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(NetworkConfigType, NamespaceNetworks, []string{"networkconfig", "networkconfigs"},
		column{Name: "Host", JSONPath: "{.host}"},
		column{Name: "Ready", JSONPath: "{.ready}"},
		column{Name: "Reason", JSONPath: "{.reason}"})
}

// NewNetworkConfig returns an empty NetworkConfig with every default set.
func NewNetworkConfig(id string) *NetworkConfig {
	return newResource[NetworkConfigSpec, NetworkConfigExtension](id)
}

var _ = register[NetworkConfigSpec, NetworkConfigExtension]("NetworkConfig", "NetworkConfigs", Derived, "")
