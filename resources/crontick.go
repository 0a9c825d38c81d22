package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// CronTickType is the COSI type of CronTick.
const CronTickType = "CronTicks" + typeSuffix

// CronTick is the last tick of a schedule. Its id is the schedule's name.
type CronTick = typed.Resource[CronTickSpec, CronTickExtension]

// CronTickSpec is the newest tick of one schedule: state-like, updated in place.
type CronTickSpec struct {
	Event EventAttributes `json:"event" protobuf:"1"`
	// Scheduled is when the tick was due; Late reports that the gateway was down then.
	Scheduled time.Time `json:"scheduled" protobuf:"2"`
	Late      bool      `json:"late,omitempty" protobuf:"3"`
}

// Attributes implements EventSpec.
func (s *CronTickSpec) Attributes() *EventAttributes { return &s.Event }

// DeepCopy implements typed.DeepCopyable.
func (s CronTickSpec) DeepCopy() CronTickSpec {
	s.Event = s.Event.Clone()

	return s
}

// CronTickExtension supplies the definition of CronTick.
type CronTickExtension struct{}

// ResourceDefinition implements typed.Extension.
func (CronTickExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(CronTickType, NamespaceEvents, []string{"crontick", "cronticks"},
		column{Name: "Scheduled", JSONPath: "{.scheduled}"})
}

// NewCronTick returns an empty CronTick with every default set.
func NewCronTick(id string) *CronTick { return newResource[CronTickSpec, CronTickExtension](id) }

var _ = register[CronTickSpec, CronTickExtension]("CronTick", "CronTicks", Event, "")
