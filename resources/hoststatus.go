package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// HostStatusType is the COSI type of HostStatus.
const HostStatusType = "HostStatuses" + typeSuffix

// HostStatus is the observed half of a Host.
type HostStatus = typed.Resource[HostStatusSpec, HostStatusExtension]

// HostStatusSpec is what was observed of a hypervisor. It has nothing in it that changes by itself on each look.
type HostStatusSpec struct {
	Connected  bool        `json:"connected" protobuf:"1"`
	Conditions []Condition `json:"conditions,omitempty" protobuf:"2"`
	// Capacity is what the hypervisor reports, or what the document says instead.
	Capacity Capacity `json:"capacity,omitzero" protobuf:"3"`
	// Driver is the hypervisor's own name: QEMU, TEST, SIM.
	Driver           string `json:"driver,omitempty" protobuf:"4"`
	Version          string `json:"version,omitempty" protobuf:"5"`
	Arch             string `json:"arch,omitempty" protobuf:"6"`
	KVM              bool   `json:"kvm" protobuf:"7"`
	ObservedRevision int64  `json:"observedRevision" protobuf:"8"`
	UID              string `json:"uid" protobuf:"9"`
	LastError        string `json:"lastError,omitempty" protobuf:"10"`
	// Generation rises with each successful connection, so that what depends on a host looks again.
	Generation int64 `json:"generation" protobuf:"11"`
	Draining   bool  `json:"draining,omitempty" protobuf:"12"`
	// RetryAfter is how long the gateway waits between two attempts to connect: 1 s at first, 30 s at most.
	RetryAfter Duration `json:"retryAfter,omitempty" protobuf:"13"`
	// Drain is how far the drain is, while the host is drained.
	Drain *DrainStatus `json:"drain,omitempty" protobuf:"14"`
	// Leftovers names domains of this gateway's whose VMs are not here: they were given up by force, and the host came back.
	// They are not started, stopped or removed. At most MaxListed, and how many more there are.
	Leftovers []string `json:"leftovers,omitempty" protobuf:"15"`
	// Surveyed is for what reason leftovers were last looked for.
	Surveyed string `json:"surveyed,omitempty" protobuf:"16"`
}

// MaxListed bounds the lists of a HostStatus: at 60 bytes an entry they stay small beside a message.
const MaxListed = 50

// DrainStatus is how far the drain of a host is.
type DrainStatus struct {
	// Left is how many VMs are still on the host, those that are leaving it among them.
	Left int `json:"left" protobuf:"1"`
	// Stays has the VMs that can't be moved, and why, sorted by name: at most MaxListed.
	Stays []VMReason `json:"stays,omitempty" protobuf:"2"`
}

// VMReason is why something is so with a VM.
type VMReason struct {
	VM     string `json:"vm" protobuf:"1"`
	Reason string `json:"reason" protobuf:"2"`
}

// DeepCopy implements typed.DeepCopyable.
func (s HostStatusSpec) DeepCopy() HostStatusSpec {
	s.Conditions = cloneSlice(s.Conditions)
	s.Leftovers = cloneSlice(s.Leftovers)

	if s.Drain = clonePointer(s.Drain); s.Drain != nil {
		s.Drain.Stays = cloneSlice(s.Drain.Stays)
	}

	return s
}

// HostStatusExtension supplies the definition of HostStatus.
type HostStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (HostStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(HostStatusType, NamespaceHosts, []string{"hoststatus", "hoststatuses"},
		column{Name: "Connected", JSONPath: "{.connected}"},
		column{Name: "Driver", JSONPath: "{.driver}"})
}

// NewHostStatus returns an empty HostStatus with every default set.
func NewHostStatus(id string) *HostStatus {
	return newResource[HostStatusSpec, HostStatusExtension](id)
}

var _ = register[HostStatusSpec, HostStatusExtension]("HostStatus", "HostStatuses", Observed, "")
