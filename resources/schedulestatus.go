package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ScheduleStatusType is the COSI type of ScheduleStatus.
const ScheduleStatusType = "ScheduleStatuses" + typeSuffix

// ScheduleStatus is the observed half of a Schedule.
type ScheduleStatus = typed.Resource[ScheduleStatusSpec, ScheduleStatusExtension]

// ScheduleStatusSpec is what a schedule did, written by its source at most once a second.
type ScheduleStatusSpec struct {
	Counts           SourceCounts `json:"counts" protobuf:"1"`
	Conditions       []Condition  `json:"conditions,omitempty" protobuf:"2"`
	ObservedRevision int64        `json:"observedRevision" protobuf:"3"`
	// Next and Last are the next and the last ticks, at most five each, the nearest first.
	Next []time.Time `json:"next,omitempty" protobuf:"4"`
	Last []time.Time `json:"last,omitempty" protobuf:"5"`
	// Skipped counts ticks that an overlap skipped.
	Skipped int64 `json:"skipped,omitempty" protobuf:"6"`
	// Timing is what the schedule follows (expression and time zone), Anchor since when: no tick up to then is ever made up for.
	Timing string    `json:"timing,omitempty" protobuf:"7"`
	Anchor time.Time `json:"anchor,omitzero" protobuf:"8"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ScheduleStatusSpec) DeepCopy() ScheduleStatusSpec {
	s.Conditions = cloneSlice(s.Conditions)
	s.Next, s.Last = cloneSlice(s.Next), cloneSlice(s.Last)

	return s
}

// ScheduleStatusExtension supplies the definition of ScheduleStatus.
type ScheduleStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ScheduleStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ScheduleStatusType, NamespaceBridge, []string{"schedulestatus", "schedulestatuses"})
}

// NewScheduleStatus returns an empty ScheduleStatus with every default set.
func NewScheduleStatus(id string) *ScheduleStatus {
	return newResource[ScheduleStatusSpec, ScheduleStatusExtension](id)
}

var _ = register[ScheduleStatusSpec, ScheduleStatusExtension]("ScheduleStatus", "ScheduleStatuses", Observed, "")
