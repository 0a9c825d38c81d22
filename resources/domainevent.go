package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// DomainEventType is the COSI type of DomainEvent.
const DomainEventType = "DomainEvents" + typeSuffix

// DomainEvent is the last thing that happened to a domain. Its id is VM, or HOST.UUID for foreign ones.
type DomainEvent = typed.Resource[DomainEventSpec, DomainEventExtension]

// DomainEventSpec is the newest event of one domain: state-like, updated in place.
type DomainEventSpec struct {
	Event      EventAttributes `json:"event" protobuf:"1"`
	Host       string          `json:"host" protobuf:"2"`
	Domain     string          `json:"domain" protobuf:"3"`
	DomainUUID string          `json:"domainUUID" protobuf:"4"`
	// VM is the VM that the domain is, empty for a foreign domain.
	VM string `json:"vm,omitempty" protobuf:"5"`
	// Kind is defined, undefined, started, suspended, resumed, stopped, shutdown, crashed, or relisted.
	Kind   string `json:"kind" protobuf:"6"`
	Detail string `json:"detail,omitempty" protobuf:"7"`
	// Epoch is the start of the process that numbers Event.Sequence.
	Epoch string `json:"epoch,omitempty" protobuf:"8"`
}

// Attributes implements EventSpec.
func (s *DomainEventSpec) Attributes() *EventAttributes { return &s.Event }

// DeepCopy implements typed.DeepCopyable.
func (s DomainEventSpec) DeepCopy() DomainEventSpec {
	s.Event = s.Event.Clone()

	return s
}

// DomainEventExtension supplies the definition of DomainEvent.
type DomainEventExtension struct{}

// ResourceDefinition implements typed.Extension.
func (DomainEventExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(DomainEventType, NamespaceEvents, []string{"domainevent", "domainevents"},
		column{Name: "VM", JSONPath: "{.vm}"},
		column{Name: "Kind", JSONPath: "{.kind}"})
}

// NewDomainEvent returns an empty DomainEvent with every default set.
func NewDomainEvent(id string) *DomainEvent {
	return newResource[DomainEventSpec, DomainEventExtension](id)
}

var _ = register[DomainEventSpec, DomainEventExtension]("DomainEvent", "DomainEvents", Event, "")
