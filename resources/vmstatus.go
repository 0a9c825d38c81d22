package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// VMStatusType is the COSI type of VMStatus.
const VMStatusType = "VMStatuses" + typeSuffix

// VMStatus is the observed half of a VM. Its id is the VM's name; its COSI version is the number that sinks publish.
type VMStatus = typed.Resource[VMStatusSpec, VMStatusExtension]

// States of a VM.
const (
	StateRunning = "running"
	StateStopped = "stopped"
	StatePaused  = "paused"
	StateCrashed = "crashed"
	StateMissing = "missing"
	StateUnknown = "unknown"
)

// VMStatusSpec is what was observed of a VM.
type VMStatusSpec struct {
	// State is running, stopped, paused, crashed, missing or unknown.
	State string `json:"state" protobuf:"1" default:"unknown"`
	Host  string `json:"host,omitempty" protobuf:"2"`
	// DomainUUID identifies the domain on the hypervisor.
	DomainUUID string      `json:"domainUUID,omitempty" protobuf:"3"`
	Addresses  []Address   `json:"addresses,omitempty" protobuf:"4"`
	Conditions []Condition `json:"conditions,omitempty" protobuf:"5"`
	// ObservedRevision is the spec revision that this status is about.
	ObservedRevision int64 `json:"observedRevision" protobuf:"6"`
	// RestartRequired lists the fields whose change is only in effect after a restart.
	RestartRequired []string `json:"restartRequired,omitempty" protobuf:"7"`
	LastError       string   `json:"lastError,omitempty" protobuf:"8"`
	// Cause is the id of the event, or the word, that led to the last change.
	Cause    string          `json:"cause,omitempty" protobuf:"9"`
	Override *OverrideStatus `json:"override,omitempty" protobuf:"10"`
	Held     bool            `json:"held,omitempty" protobuf:"11"`
	// UID is the VM's uid.
	UID string `json:"uid" protobuf:"12"`
	// Crashes counts consecutive crashes and guest shutdowns that were answered by a start.
	Crashes int `json:"crashes,omitempty" protobuf:"13"`
	// RestartID is the last restart request that was carried out.
	RestartID string `json:"restartID,omitempty" protobuf:"14"`
	// StopRequested is when the running stop began; zero while none runs.
	StopRequested time.Time `json:"stopRequested,omitzero" protobuf:"15"`
	// LastKnown is when State was last other than unknown, while it is unknown.
	LastKnown time.Time `json:"lastKnown,omitzero" protobuf:"16"`
	// Started is when the gateway last started the domain.
	Started time.Time `json:"started,omitzero" protobuf:"17"`
	// DisksMade names the disks whose volume was made: one of them that is gone is missing, and never made again empty.
	DisksMade []string `json:"disksMade,omitempty" protobuf:"18"`
	// AdoptedDisks has the paths of volumes that came with a domain from the gateway that made them: they are in its pool, and
	// are neither grown nor removed.
	AdoptedDisks map[string]string `json:"adoptedDisks,omitempty" protobuf:"36"`
	// LeftBehind names what the VM still has on hosts that were given up by force.
	LeftBehind []string `json:"leftBehind,omitempty" protobuf:"30"`
	// Seeds names the volumes that were made for cloud-init and are not removed yet; it is written before they are made.
	Seeds []string `json:"seeds,omitempty" protobuf:"31"`
	// Definition is the last inactive definition that was seen of the domain, in its driver's form: a domain that is made again begins
	// with it. It is not shown.
	Definition []byte `json:"-" protobuf:"37"`
}

// Address is one address of a VM, and who says so.
type Address struct {
	Address string `json:"address" protobuf:"1"`
	// Source is declared, lease, agent or arp.
	Source  string `json:"source" protobuf:"2"`
	Network string `json:"network,omitempty" protobuf:"3"`
	MAC     string `json:"mac,omitempty" protobuf:"4"`
}

// OverrideStatus is the override that is in force.
type OverrideStatus struct {
	Power string    `json:"power,omitempty" protobuf:"1"`
	By    string    `json:"by,omitempty" protobuf:"2"`
	Since time.Time `json:"since,omitzero" protobuf:"3"`
	Until time.Time `json:"until,omitzero" protobuf:"4"`
	// Labels are a merge patch of the declared labels; null: the label is taken away.
	Labels JSON `json:"labels,omitempty" protobuf:"5"`
}

// DeepCopy implements typed.DeepCopyable.
func (s VMStatusSpec) DeepCopy() VMStatusSpec {
	s.Addresses = cloneSlice(s.Addresses)
	s.Conditions = cloneSlice(s.Conditions)
	s.RestartRequired = cloneSlice(s.RestartRequired)
	s.DisksMade = cloneSlice(s.DisksMade)
	s.Seeds = cloneSlice(s.Seeds)
	s.AdoptedDisks = cloneMap(s.AdoptedDisks)
	s.LeftBehind = cloneSlice(s.LeftBehind)
	s.Definition = cloneSlice(s.Definition)

	if s.Override = clonePointer(s.Override); s.Override != nil {
		s.Override.Labels = cloneSlice(s.Override.Labels)
	}

	return s
}

// VMStatusExtension supplies the definition of VMStatus.
type VMStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (VMStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(VMStatusType, NamespaceVMs, []string{"vmstatus", "vmstatuses"},
		column{Name: "State", JSONPath: "{.state}"},
		column{Name: "Host", JSONPath: "{.host}"})
}

// NewVMStatus returns an empty VMStatus with every default set.
func NewVMStatus(id string) *VMStatus { return newResource[VMStatusSpec, VMStatusExtension](id) }

var _ = register[VMStatusSpec, VMStatusExtension]("VMStatus", "VMStatuses", Observed, "")
