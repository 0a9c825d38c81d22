package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// OverrideType is the COSI type of Override.
const OverrideType = "Overrides" + typeSuffix

// Override is kept above the document of one VM. Its id is the VM's name.
type Override = typed.Resource[OverrideSpec, OverrideExtension]

// OverrideSpec is a merge patch above a VM's declared specification and labels, and a request to restart it.
type OverrideSpec struct {
	// Patch is a merge patch (RFC 7396) of the VM's spec; empty: none.
	Patch JSON `json:"patch,omitempty" protobuf:"1"`
	// By is who asked last.
	By string `json:"by" protobuf:"2"`
	// Since is when it was asked for last; Until when the power state in Patch ends, zero: when the document changes in it,
	// as every other field and label does.
	Since time.Time `json:"since" protobuf:"3"`
	Until time.Time `json:"until,omitzero" protobuf:"4"`
	// Revision is the spec revision that the patches stand on. Base has that revision's values of the patched fields: a field
	// that the document changes is no longer overridden.
	Revision int64 `json:"revision" protobuf:"5"`
	Base     JSON  `json:"base,omitempty" protobuf:"6"`
	// RestartID is the newest request to restart the VM, once.
	RestartID string `json:"restartID,omitempty" protobuf:"7"`
	Cause     string `json:"cause,omitempty" protobuf:"8"`
	// Labels is a merge patch of the VM's labels; empty: none. LabelsBase is to it what Base is to Patch.
	Labels     JSON `json:"labels,omitempty" protobuf:"9"`
	LabelsBase JSON `json:"labelsBase,omitempty" protobuf:"10"`
}

// IsEmpty reports whether nothing is overridden.
func (s *OverrideSpec) IsEmpty() bool { return len(s.Patch) == 0 && len(s.Labels) == 0 }

// DeepCopy implements typed.DeepCopyable.
func (s OverrideSpec) DeepCopy() OverrideSpec {
	s.Patch, s.Base = cloneSlice(s.Patch), cloneSlice(s.Base)
	s.Labels, s.LabelsBase = cloneSlice(s.Labels), cloneSlice(s.LabelsBase)

	return s
}

// OverrideExtension supplies the definition of Override.
type OverrideExtension struct{}

// ResourceDefinition implements typed.Extension.
func (OverrideExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(OverrideType, NamespaceVMs, []string{"override", "overrides"},
		column{Name: "By", JSONPath: "{.by}"},
		column{Name: "Until", JSONPath: "{.until}"})
}

// NewOverride returns an empty Override with every default set.
func NewOverride(id string) *Override { return newResource[OverrideSpec, OverrideExtension](id) }

var _ = register[OverrideSpec, OverrideExtension]("Override", "Overrides", Command, "")
