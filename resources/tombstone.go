package resources

import (
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// TombstoneType is the COSI type of Tombstone.
const TombstoneType = "Tombstones" + typeSuffix

// Tombstone outlives a deleted VM until its last message is acknowledged. Its id is the uid.
type Tombstone = typed.Resource[TombstoneSpec, TombstoneExtension]

// TombstoneSpec is what the last message of a deleted object needs.
type TombstoneSpec struct {
	Kind string `json:"kind" protobuf:"1"`
	Name string `json:"name" protobuf:"2"`
	UID  string `json:"uid" protobuf:"3"`
	// Number follows the last one that the status had.
	Number uint64    `json:"number" protobuf:"4"`
	Host   string    `json:"host,omitempty" protobuf:"5"`
	Cause  string    `json:"cause,omitempty" protobuf:"6"`
	Time   time.Time `json:"time" protobuf:"7"`
	// LeftBehind names what was not removed: kept disks, or all of a host that is gone.
	LeftBehind []string `json:"leftBehind,omitempty" protobuf:"8"`
}

// DeepCopy implements typed.DeepCopyable.
func (s TombstoneSpec) DeepCopy() TombstoneSpec {
	s.LeftBehind = cloneSlice(s.LeftBehind)

	return s
}

// TombstoneExtension supplies the definition of Tombstone.
type TombstoneExtension struct{}

// ResourceDefinition implements typed.Extension.
func (TombstoneExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(TombstoneType, NamespaceVMs, []string{"tombstone", "tombstones"},
		column{Name: "Kind", JSONPath: "{.kind}"},
		column{Name: "Name", JSONPath: "{.name}"})
}

// NewTombstone returns an empty Tombstone with every default set.
func NewTombstone(id string) *Tombstone { return newResource[TombstoneSpec, TombstoneExtension](id) }

var _ = register[TombstoneSpec, TombstoneExtension]("Tombstone", "Tombstones", Observed, "")
