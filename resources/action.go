package resources

import (
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ActionType is the COSI type of Action.
const ActionType = "Actions" + typeSuffix

// Action is something to do once.
type Action = typed.Resource[ActionSpec, ActionExtension]

// Verbs of an action.
const (
	ActionApply   = "apply"
	ActionPatch   = "patch"
	ActionDelete  = "delete"
	ActionSync    = "sync"
	ActionPublish = "publish"
	ActionConfirm = "confirm"
)

// ActionSpec is something that a trigger, a replay or an operator asked for. Its id is deterministic, so that asking twice
// for the same is asking once. `documents` executes all verbs but publish, which a sink does.
type ActionSpec struct {
	Verb   string  `json:"verb" protobuf:"1"`
	Target *Target `json:"target,omitempty" protobuf:"2"`
	// Body is the document of apply, the merge patch of patch, the data of publish.
	Body JSON `json:"body,omitempty" protobuf:"3"`
	// Subject of publish; root of confirm.
	Subject string `json:"subject,omitempty" protobuf:"4"`
	// By is who asked: trigger:NAME, api.
	By string `json:"by" protobuf:"5"`
	// Cause is the event that led to it.
	Cause string `json:"cause,omitempty" protobuf:"6"`
	// Rule holds what a sender's apply may do; nil for an operator.
	Rule *ApplyRule `json:"rule,omitempty" protobuf:"7"`
	Hops int        `json:"hops,omitempty" protobuf:"8"`
}

// Finalizer is the one that the action is created with: of who executes it. Without it nobody would, and retention would
// take the action away.
func (s *ActionSpec) Finalizer() resource.Finalizer {
	if s.Verb == ActionPublish {
		return FinalizerPublish
	}

	return FinalizerDocuments
}

// DeepCopy implements typed.DeepCopyable.
func (s ActionSpec) DeepCopy() ActionSpec {
	s.Target, s.Body, s.Rule = s.Target.Clone(), cloneSlice(s.Body), s.Rule.Clone()

	return s
}

// ActionExtension supplies the definition of Action.
type ActionExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ActionExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ActionType, NamespaceEvents, []string{"action", "actions"},
		column{Name: "Verb", JSONPath: "{.verb}"},
		column{Name: "By", JSONPath: "{.by}"})
}

// NewAction returns an empty Action with every default set.
func NewAction(id string) *Action { return newResource[ActionSpec, ActionExtension](id) }

var _ = register[ActionSpec, ActionExtension]("Action", "Actions", Command, "")
