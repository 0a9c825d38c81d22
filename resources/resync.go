package resources

import (
	"hash/fnv"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ResyncType is the COSI type of Resync.
const ResyncType = "Resyncs" + typeSuffix

// Resync asks the controllers to look again: the slow safety net, and `sync`.
type Resync = typed.Resource[ResyncSpec, ResyncExtension]

// ResyncSpec asks for objects to be looked at again. Either Target, or one slice of all VMs.
type ResyncSpec struct {
	Target *Target `json:"target,omitempty" protobuf:"1"`
	// Slice of Slices: the VMs whose name hashes (FNV-1a) to Slice modulo Slices.
	Slice  uint32 `json:"slice" protobuf:"2"`
	Slices uint32 `json:"slices" protobuf:"3"`
	// Sequence rises with each request, so that writing it is a change.
	Sequence uint64 `json:"sequence" protobuf:"4"`
	Cause    string `json:"cause" protobuf:"5"`
}

// Contains reports whether the VM of this name and labels is asked for.
func (s *ResyncSpec) Contains(name string, labels map[string]string) bool {
	if s.Target != nil {
		return s.Target.Matches("VM", name, labels)
	}

	if s.Slices == 0 {
		return false
	}

	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash never fails

	return h.Sum32()%s.Slices == s.Slice
}

// DeepCopy implements typed.DeepCopyable.
func (s ResyncSpec) DeepCopy() ResyncSpec {
	s.Target = s.Target.Clone()

	return s
}

// ResyncExtension supplies the definition of Resync.
type ResyncExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ResyncExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ResyncType, NamespaceVMs, []string{"resync", "resyncs"},
		column{Name: "Cause", JSONPath: "{.cause}"})
}

// NewResync returns an empty Resync with every default set.
func NewResync(id string) *Resync { return newResource[ResyncSpec, ResyncExtension](id) }

var _ = register[ResyncSpec, ResyncExtension]("Resync", "Resyncs", Command, "")
