package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// DeletionGuardType is the COSI type of DeletionGuard.
const DeletionGuardType = "DeletionGuards" + typeSuffix

// DeletionGuard is written by documents while a root's mass deletion waits for `gateway confirm`. Its id is that of the FileRoot.
type DeletionGuard = typed.Resource[DeletionGuardSpec, DeletionGuardExtension]

// DeletionGuardSpec is a mass deletion that is held back until a person confirms it.
type DeletionGuardSpec struct {
	Root string `json:"root" protobuf:"1"`
	// Objects that would be removed (KIND/NAME), at most 100 of them, and how many there are of how many.
	Objects []string `json:"objects" protobuf:"2"`
	Count   int      `json:"count" protobuf:"3"`
	Total   int      `json:"total" protobuf:"4"`
	// Digest identifies exactly this set; a confirmation holds for it alone.
	Digest string    `json:"digest" protobuf:"5"`
	Since  time.Time `json:"since" protobuf:"6"`
}

// DeepCopy implements typed.DeepCopyable.
func (s DeletionGuardSpec) DeepCopy() DeletionGuardSpec {
	s.Objects = cloneSlice(s.Objects)

	return s
}

// DeletionGuardExtension supplies the definition of DeletionGuard.
type DeletionGuardExtension struct{}

// ResourceDefinition implements typed.Extension.
func (DeletionGuardExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(DeletionGuardType, NamespaceBridge, []string{"deletionguard", "deletionguards"},
		column{Name: "Root", JSONPath: "{.root}"},
		column{Name: "Count", JSONPath: "{.count}"})
}

// NewDeletionGuard returns an empty DeletionGuard with every default set.
func NewDeletionGuard(id string) *DeletionGuard {
	return newResource[DeletionGuardSpec, DeletionGuardExtension](id)
}

var _ = register[DeletionGuardSpec, DeletionGuardExtension]("DeletionGuard", "DeletionGuards", Observed, "")
