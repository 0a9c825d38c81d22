package resources

import (
	"time"

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
	Host string `json:"host" protobuf:"1"`
	// Path of the file, once it is ready.
	Path string `json:"path,omitempty" protobuf:"2"`
	// Bytes is how much of it is there: all of it when it is ready.
	Bytes Size `json:"bytes,omitempty" protobuf:"3"`
	// Ready reports whether the file is complete and checked.
	Ready   bool   `json:"ready" protobuf:"4"`
	Message string `json:"message,omitempty" protobuf:"5"`
	// Reason is one of the reasons of conditions: ImageReady, ImageFetching, ImageMissing, ImageInvalid, ….
	Reason string `json:"reason,omitempty" protobuf:"6"`
	// Total is how many bytes there are to fetch; 0: not known.
	Total Size `json:"total,omitempty" protobuf:"7"`
	// VirtualSize is the size of the disk that the image is, Format qcow2 or raw.
	VirtualSize Size   `json:"virtualSize,omitempty" protobuf:"8"`
	Format      string `json:"format,omitempty" protobuf:"9"`
	// SHA256 is the checksum that the file was found to have; empty where none is declared.
	SHA256 string `json:"sha256,omitempty" protobuf:"10"`
	// Failures counts the attempts that failed in a row; NextTry is when the next one begins.
	Failures int       `json:"failures,omitempty" protobuf:"11"`
	NextTry  time.Time `json:"nextTry,omitzero" protobuf:"12"`
}

// Why says in words why the image is not ready on the host; empty where there is nothing to say.
func (e *ImageOnHost) Why() string {
	if e.Ready || e.NextTry.IsZero() {
		return e.Message
	}

	return e.Message + "; the next try is at " + e.NextTry.UTC().Format(time.RFC3339)
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
