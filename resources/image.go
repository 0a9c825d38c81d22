package resources

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// ImageType is the COSI type of Image.
const ImageType = "Images" + typeSuffix

// Image is a disk image as it was declared.
type Image = typed.Resource[ImageSpec, ImageExtension]

// ImageSpec is where a disk image comes from.
type ImageSpec struct {
	Source string `json:"source" protobuf:"1" doc:"URL within policy.imageURLs, or an absolute path on the host within policy.paths"`
	SHA256 string `json:"sha256,omitempty" protobuf:"2" doc:"checksum of the file, 64 hex digits; required for a URL"`
}

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate implements Validator.
func (s *ImageSpec) Validate() (errs FieldErrors) {
	if s.SHA256 != "" && !sha256Pattern.MatchString(s.SHA256) {
		errs.Add("spec.sha256", "not 64 hex digits in lower case")
	}

	switch {
	case s.Source == "":
		errs.Add("spec.source", "a URL or an absolute path is required")
	case strings.HasPrefix(s.Source, "/"):
		validatePath("spec.source", s.Source, &errs)
	default:
		if u, err := url.Parse(s.Source); err != nil || u.Host == "" {
			errs.Add("spec.source", "%q is neither a URL nor an absolute path", s.Source)
		}

		if s.SHA256 == "" {
			errs.Add("spec.sha256", "required for a URL")
		}
	}

	return errs
}

// DeepCopy implements typed.DeepCopyable; nothing in it is shared.
func (s ImageSpec) DeepCopy() ImageSpec { return s }

// ImageExtension supplies the definition of Image.
type ImageExtension struct{}

// ResourceDefinition implements typed.Extension.
func (ImageExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(ImageType, NamespaceVMs, []string{"image", "images"},
		column{Name: "Source", JSONPath: "{.source}"})
}

// NewImage returns an empty Image with every default set.
func NewImage(id string) *Image { return newResource[ImageSpec, ImageExtension](id) }

var _ = register[ImageSpec, ImageExtension]("Image", "Images", Declared, "ImageStatus")
