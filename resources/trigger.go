package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// TriggerType is the COSI type of Trigger.
const TriggerType = "Triggers" + typeSuffix

// Trigger connects events to what is done about them.
type Trigger = typed.Resource[TriggerSpec, TriggerExtension]

// TriggerSpec says what is done on which events.
type TriggerSpec struct {
	On   TriggerOn       `json:"on" protobuf:"1"`
	When string          `json:"when,omitempty" protobuf:"2" doc:"CEL over event and the objects that it names; empty: always"`
	Do   []TriggerAction `json:"do" protobuf:"3"`
}

// TriggerOn chooses events by source and name.
type TriggerOn struct {
	Source string `json:"source" protobuf:"1" enum:"file,schedule,webhook,subscription,domain"`
	Name   string `json:"name,omitempty" protobuf:"2" doc:"of the webhook, schedule or subscription; the VM of a domain event; empty: every"`
}

// TriggerAction is one thing to do: exactly one field is set.
type TriggerAction struct {
	Sync    *Target         `json:"sync,omitempty" protobuf:"1" doc:"reconcile these objects now"`
	Apply   *TriggerApply   `json:"apply,omitempty" protobuf:"2"`
	Patch   *TriggerPatch   `json:"patch,omitempty" protobuf:"3"`
	Delete  *Target         `json:"delete,omitempty" protobuf:"4"`
	Publish *TriggerPublish `json:"publish,omitempty" protobuf:"5"`
}

// TriggerApply declares the object of a document whose strings may hold ${CEL}.
type TriggerApply struct {
	Document JSON `json:"document" protobuf:"1"`
}

// TriggerPatch merges into objects (RFC 7396); strings may hold ${CEL}.
type TriggerPatch struct {
	Kind     string    `json:"kind" protobuf:"1"`
	Name     string    `json:"name,omitempty" protobuf:"2"`
	Selector *Selector `json:"selector,omitempty" protobuf:"3"`
	Merge    JSON      `json:"merge" protobuf:"4"`
}

// TriggerPublish sends a message.
type TriggerPublish struct {
	Subject string `json:"subject" protobuf:"1" doc:"may hold ${CEL}"`
	Data    JSON   `json:"data,omitempty" protobuf:"2" doc:"default: the event's attributes; strings may hold ${CEL}"`
}

// DeepCopy implements typed.DeepCopyable.
func (s TriggerSpec) DeepCopy() TriggerSpec {
	s.Do = cloneEach(s.Do, func(a TriggerAction) TriggerAction {
		a.Sync, a.Delete = a.Sync.Clone(), a.Delete.Clone()

		if a.Apply != nil {
			a.Apply = &TriggerApply{Document: cloneSlice(a.Apply.Document)}
		}

		if a.Patch != nil {
			p := *a.Patch
			p.Selector, p.Merge = p.Selector.Clone(), cloneSlice(p.Merge)
			a.Patch = &p
		}

		if a.Publish != nil {
			a.Publish = &TriggerPublish{Subject: a.Publish.Subject, Data: cloneSlice(a.Publish.Data)}
		}

		return a
	})

	return s
}

// TriggerExtension supplies the definition of Trigger.
type TriggerExtension struct{}

// ResourceDefinition implements typed.Extension.
func (TriggerExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(TriggerType, NamespaceBridge, []string{"trigger", "triggers"},
		column{Name: "Source", JSONPath: "{.on.source}"},
		column{Name: "Name", JSONPath: "{.on.name}"})
}

// NewTrigger returns an empty Trigger with every default set.
func NewTrigger(id string) *Trigger { return newResource[TriggerSpec, TriggerExtension](id) }

var _ = register[TriggerSpec, TriggerExtension]("Trigger", "Triggers", Declared, "")
