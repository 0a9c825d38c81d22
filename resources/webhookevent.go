package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// WebhookEventType is the COSI type of WebhookEvent.
const WebhookEventType = "WebhookEvents" + typeSuffix

// WebhookEvent is one delivery to a webhook. Its id is the event's.
type WebhookEvent = typed.Resource[WebhookEventSpec, WebhookEventExtension]

// WebhookEventSpec is one delivery to a webhook: message-like. Its finalizers are who has yet to handle it.
type WebhookEventSpec struct {
	Event EventAttributes `json:"event" protobuf:"1"`
	Data  []byte          `json:"data,omitempty" protobuf:"2"`
	// Apply is the declaration's rule at the time of the delivery; nil where nothing is applied.
	Apply *ApplyRule `json:"apply,omitempty" protobuf:"3"`
}

// Attributes implements EventSpec.
func (s *WebhookEventSpec) Attributes() *EventAttributes { return &s.Event }

// DeepCopy implements typed.DeepCopyable. Data is shared: nobody changes it, and the history of the state keeps several
// versions of each event.
func (s WebhookEventSpec) DeepCopy() WebhookEventSpec {
	s.Event = s.Event.Clone()
	s.Apply = s.Apply.Clone()

	return s
}

// WebhookEventExtension supplies the definition of WebhookEvent.
type WebhookEventExtension struct{}

// ResourceDefinition implements typed.Extension.
func (WebhookEventExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(WebhookEventType, NamespaceEvents, []string{"webhookevent", "webhookevents"},
		column{Name: "Name", JSONPath: "{.event.name}"})
}

// NewWebhookEvent returns an empty WebhookEvent with every default set.
func NewWebhookEvent(id string) *WebhookEvent {
	return newResource[WebhookEventSpec, WebhookEventExtension](id)
}

var _ = register[WebhookEventSpec, WebhookEventExtension]("WebhookEvent", "WebhookEvents", Event, "")
