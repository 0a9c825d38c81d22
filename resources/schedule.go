package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"gateway/resources/cronexpr"
)

// ScheduleType is the COSI type of Schedule.
const ScheduleType = "Schedules" + typeSuffix

// Schedule is a declared clock.
type Schedule = typed.Resource[ScheduleSpec, ScheduleExtension]

// ScheduleSpec is when an event is to happen. Exactly one of Cron and At is given.
type ScheduleSpec struct {
	Cron     string   `json:"cron,omitempty" protobuf:"1" doc:"five fields, six with seconds first, @hourly…@yearly, or @every DURATION of at least 1s"`
	At       string   `json:"at,omitempty" protobuf:"2" doc:"once, at this RFC 3339 time"`
	Timezone string   `json:"timezone" protobuf:"3" default:"UTC" doc:"IANA name, as Europe/Berlin"`
	Jitter   Duration `json:"jitter,omitempty" protobuf:"4" doc:"a random delay up to this; at most 24h"`
	Overlap  string   `json:"overlap" protobuf:"5" default:"skip" enum:"skip,queue,allow" doc:"what happens while the last run is still going"`
	CatchUp  string   `json:"catchUp" protobuf:"6" default:"last" enum:"none,last,all" doc:"ticks missed while the gateway was down; all: at most 100"`
	Target   *Target  `json:"target,omitempty" protobuf:"7"`
}

// Validate implements Validator.
func (s *ScheduleSpec) Validate() (errs FieldErrors) {
	if (s.Cron == "") == (s.At == "") {
		errs.Add("spec", "exactly one of cron and at is required")
	}

	// "Local" would mean another time on another machine.
	loc, err := time.LoadLocation(s.Timezone)
	if err != nil || s.Timezone == "Local" {
		errs.Add("spec.timezone", "%q is not a time zone, as Europe/Berlin", s.Timezone)

		loc = time.UTC
	}

	if s.Cron != "" {
		if _, err := cronexpr.Parse(s.Cron, loc); err != nil {
			errs.Add("spec.cron", "%s", err)
		}
	}

	if s.At != "" {
		if _, err := time.Parse(time.RFC3339, s.At); err != nil {
			errs.Add("spec.at", "%q is not an RFC 3339 time, as 2026-12-24T18:00:00+01:00", s.At)
		}
	}

	if s.Jitter.Std() > 24*time.Hour {
		errs.Add("spec.jitter", "%s is more than 24h", s.Jitter)
	}

	s.Target.validate("spec.target", &errs)

	return errs
}

// DeepCopy implements typed.DeepCopyable.
func (s ScheduleSpec) DeepCopy() ScheduleSpec {
	s.Target = s.Target.Clone()

	return s
}

// ScheduleExtension supplies the definition of Schedule.
type ScheduleExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ScheduleExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ScheduleType, NamespaceBridge, []string{"schedule", "schedules"},
		column{Name: "Cron", JSONPath: "{.cron}"},
		column{Name: "Timezone", JSONPath: "{.timezone}"})
}

// NewSchedule returns an empty Schedule with every default set.
func NewSchedule(id string) *Schedule { return newResource[ScheduleSpec, ScheduleExtension](id) }

var _ = register[ScheduleSpec, ScheduleExtension]("Schedule", "Schedules", Declared, "ScheduleStatus")
