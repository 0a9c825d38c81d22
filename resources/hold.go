package resources

import (
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// HoldType is the COSI type of Hold.
const HoldType = "Holds" + typeSuffix

// Hold stops the reconciling of one object. Its id is HoldID.
type Hold = typed.Resource[HoldSpec, HoldExtension]

// HoldForced is the Reason of a Hold that comes with a forced deletion: the object goes, and what declares it does not bring
// it back. Any other Hold keeps an object in teardown from being taken apart too.
const HoldForced = "ForcedDeletion"

// HoldSpec stops the reconciling of one object.
type HoldSpec struct {
	Kind   string    `json:"kind" protobuf:"1"`
	Name   string    `json:"name" protobuf:"2"`
	By     string    `json:"by" protobuf:"3"`
	Since  time.Time `json:"since" protobuf:"4"`
	Reason string    `json:"reason,omitempty" protobuf:"5"`
}

// HoldID is the id of the Hold of an object.
func HoldID(kind, name string) string { return strings.ToLower(kind) + "." + name }

// DeepCopy implements typed.DeepCopyable; nothing in it is shared.
func (s HoldSpec) DeepCopy() HoldSpec { return s }

// HoldExtension supplies the definition of Hold.
type HoldExtension struct{}

// ResourceDefinition implements typed.Extension.
func (HoldExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(HoldType, NamespaceBridge, []string{"hold", "holds"},
		column{Name: "Kind", JSONPath: "{.kind}"},
		column{Name: "Name", JSONPath: "{.name}"})
}

// NewHold returns an empty Hold with every default set.
func NewHold(id string) *Hold { return newResource[HoldSpec, HoldExtension](id) }

var _ = register[HoldSpec, HoldExtension]("Hold", "Holds", Command, "")
