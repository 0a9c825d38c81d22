package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// NetworkStatusType is the COSI type of NetworkStatus.
const NetworkStatusType = "NetworkStatuses" + typeSuffix

// NetworkStatus is the observed half of a Network.
type NetworkStatus = typed.Resource[NetworkStatusSpec, NetworkStatusExtension]

// NetworkStatusSpec is what is known of a network over all hosts.
type NetworkStatusSpec struct {
	// Hosts that have the network, sorted.
	Hosts            []string    `json:"hosts,omitempty" protobuf:"1"`
	Conditions       []Condition `json:"conditions,omitempty" protobuf:"2"`
	ObservedRevision int64       `json:"observedRevision" protobuf:"3"`
}

// DeepCopy implements typed.DeepCopyable.
func (s NetworkStatusSpec) DeepCopy() NetworkStatusSpec {
	s.Hosts = cloneSlice(s.Hosts)
	s.Conditions = cloneSlice(s.Conditions)

	return s
}

// NetworkStatusExtension supplies the definition of NetworkStatus.
type NetworkStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (NetworkStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(NetworkStatusType, NamespaceNetworks, []string{"networkstatus", "networkstatuses"})
}

// NewNetworkStatus returns an empty NetworkStatus with every default set.
func NewNetworkStatus(id string) *NetworkStatus {
	return newResource[NetworkStatusSpec, NetworkStatusExtension](id)
}

var _ = register[NetworkStatusSpec, NetworkStatusExtension]("NetworkStatus", "NetworkStatuses", Observed, "")
