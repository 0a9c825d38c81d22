package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ImageStatusType is the COSI type of ImageStatus.
const ImageStatusType = "ImageStatuses" + typeSuffix

// ImageStatus is the observed half of an Image.
type ImageStatus = typed.Resource[ImageStatusSpec, ImageStatusExtension]

// ImageStatusSpec is where an image is present.
type ImageStatusSpec struct {
	Hosts            []ImageOnHost `json:"hosts,omitempty" protobuf:"1"`
	Conditions       []Condition   `json:"conditions,omitempty" protobuf:"2"`
	ObservedRevision int64         `json:"observedRevision" protobuf:"3"`
}

// ImageOnHost is the image's file on one host.
type ImageOnHost struct {
	Host  string `json:"host" protobuf:"1"`
	Path  string `json:"path,omitempty" protobuf:"2"`
	Bytes Size   `json:"bytes,omitempty" protobuf:"3"`
	// Ready reports whether the file is complete and checked.
	Ready   bool   `json:"ready" protobuf:"4"`
	Message string `json:"message,omitempty" protobuf:"5"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ImageStatusSpec) DeepCopy() ImageStatusSpec {
	s.Hosts = cloneSlice(s.Hosts)
	s.Conditions = cloneSlice(s.Conditions)

	return s
}

// ImageStatusExtension supplies the definition of ImageStatus.
type ImageStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ImageStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ImageStatusType, NamespaceVMs, []string{"imagestatus", "imagestatuses"})
}

// NewImageStatus returns an empty ImageStatus with every default set.
func NewImageStatus(id string) *ImageStatus {
	return newResource[ImageStatusSpec, ImageStatusExtension](id)
}

var _ = register[ImageStatusSpec, ImageStatusExtension]("ImageStatus", "ImageStatuses", Observed, "")
