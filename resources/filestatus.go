package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// FileStatusType is the COSI type of FileStatus.
const FileStatusType = "FileStatuses" + typeSuffix

// FileStatus is what the file source knows of one file under a documents directory. Its id is FileID of the path.
type FileStatus = typed.Resource[FileStatusSpec, FileStatusExtension]

// FileStatusSpec is what the file source knows of one file.
type FileStatusSpec struct {
	Path   string `json:"path" protobuf:"1"`
	Root   string `json:"root" protobuf:"2"`
	Digest string `json:"digest,omitempty" protobuf:"3"`
	Bytes  int64  `json:"bytes" protobuf:"4"`
	// Error says why the file can't be read; empty when it can.
	Error string `json:"error,omitempty" protobuf:"5"`
}

// DeepCopy implements typed.DeepCopyable; nothing in it is shared.
func (s FileStatusSpec) DeepCopy() FileStatusSpec { return s }

// FileStatusExtension supplies the definition of FileStatus.
type FileStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (FileStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(FileStatusType, NamespaceBridge, []string{"file", "files", "filestatus"},
		column{Name: "Path", JSONPath: "{.path}"},
		column{Name: "Error", JSONPath: "{.error}"})
}

// NewFileStatus returns an empty FileStatus with every default set.
func NewFileStatus(id string) *FileStatus {
	return newResource[FileStatusSpec, FileStatusExtension](id)
}

var _ = register[FileStatusSpec, FileStatusExtension]("FileStatus", "FileStatuses", Observed, "")
