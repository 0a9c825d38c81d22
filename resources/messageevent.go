package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// MessageEventType is the COSI type of MessageEvent.
const MessageEventType = "MessageEvents" + typeSuffix

// MessageEvent is one message of a subscription. Its id is the event's.
type MessageEvent = typed.Resource[MessageEventSpec, MessageEventExtension]

// MessageEventSpec is one message of a subscription: message-like. Its finalizers are who has yet to handle it.
type MessageEventSpec struct {
	Event EventAttributes `json:"event" protobuf:"1"`
	Data  []byte          `json:"data,omitempty" protobuf:"2"`
	// Apply is the declaration's rule at the time of the delivery; nil where nothing is applied.
	Apply *ApplyRule `json:"apply,omitempty" protobuf:"3"`
	// NATSSubject is the subject that the message came on.
	NATSSubject string `json:"natsSubject" protobuf:"4"`
}

// Attributes implements EventSpec.
func (s *MessageEventSpec) Attributes() *EventAttributes { return &s.Event }

// DeepCopy implements typed.DeepCopyable. Data is shared: nobody changes it, and the history of the state keeps several
// versions of each event.
func (s MessageEventSpec) DeepCopy() MessageEventSpec {
	s.Event = s.Event.Clone()
	s.Apply = s.Apply.Clone()

	return s
}

// MessageEventExtension supplies the definition of MessageEvent.
type MessageEventExtension struct{}

// ResourceDefinition implements typed.Extension.
func (MessageEventExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(MessageEventType, NamespaceEvents, []string{"messageevent", "messageevents"},
		column{Name: "Name", JSONPath: "{.event.name}"})
}

// NewMessageEvent returns an empty MessageEvent with every default set.
func NewMessageEvent(id string) *MessageEvent {
	return newResource[MessageEventSpec, MessageEventExtension](id)
}

var _ = register[MessageEventSpec, MessageEventExtension]("MessageEvent", "MessageEvents", Event, "")
