package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ApplyResultType is the COSI type of ApplyResult.
const ApplyResultType = "ApplyResults" + typeSuffix

// ApplyResult is what `documents` made of an event. Its id is the event's id.
type ApplyResult = typed.Resource[ApplyResultSpec, ApplyResultExtension]

// ApplyResultSpec is what became of the documents of one file, delivery or message.
type ApplyResultSpec struct {
	Origin string `json:"origin" protobuf:"1"`
	Root   string `json:"root,omitempty" protobuf:"2"`
	// Sequence and Digest are those of the event that was handled last.
	Sequence uint64 `json:"sequence" protobuf:"3"`
	Digest   string `json:"digest,omitempty" protobuf:"4"`
	// Objects that the origin declares; while Error is set, those of its last good version.
	Objects []AppliedObject `json:"objects,omitempty" protobuf:"5"`
	// Error says why the documents are not in force: a parse error with file:line:column. The last good version stays.
	Error string    `json:"error,omitempty" protobuf:"6"`
	Time  time.Time `json:"time" protobuf:"7"`
}

// Outcomes of one object.
const (
	OutcomeCreated   = "created"
	OutcomeUpdated   = "updated"
	OutcomeUnchanged = "unchanged"
	OutcomeDeleted   = "deleted"
	OutcomeConflict  = "conflict"
	OutcomeRefused   = "refused"
)

// AppliedObject is what became of one document.
type AppliedObject struct {
	Kind     string `json:"kind" protobuf:"1"`
	Name     string `json:"name" protobuf:"2"`
	Outcome  string `json:"outcome" protobuf:"3"`
	Message  string `json:"message,omitempty" protobuf:"4"`
	Revision int64  `json:"revision,omitempty" protobuf:"5"`
	Line     int    `json:"line,omitempty" protobuf:"6"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ApplyResultSpec) DeepCopy() ApplyResultSpec {
	s.Objects = cloneSlice(s.Objects)

	return s
}

// ApplyResultExtension supplies the definition of ApplyResult.
type ApplyResultExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ApplyResultExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ApplyResultType, NamespaceBridge, []string{"applyresult", "applyresults"},
		column{Name: "Origin", JSONPath: "{.origin}"},
		column{Name: "Error", JSONPath: "{.error}"})
}

// NewApplyResult returns an empty ApplyResult with every default set.
func NewApplyResult(id string) *ApplyResult {
	return newResource[ApplyResultSpec, ApplyResultExtension](id)
}

var _ = register[ApplyResultSpec, ApplyResultExtension]("ApplyResult", "ApplyResults", Observed, "")
