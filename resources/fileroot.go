package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// FileRootType is the COSI type of FileRoot.
const FileRootType = "FileRoots" + typeSuffix

// FileRoot is a documents directory. Its id is FileID of its path.
type FileRoot = typed.Resource[FileRootSpec, FileRootExtension]

// FileRootSpec is the state of the scans of one documents directory. The file source writes it before and after it writes
// the FileEvents of a scan, so that nobody takes a half-told scan for the whole: objects are removed only once Completed
// equals Begun and every FileEvent under the root was handled.
type FileRootSpec struct {
	Path string `json:"path" protobuf:"1"`
	// Begun and Completed are numbers of scans that found a difference.
	Begun     int64 `json:"begun" protobuf:"2"`
	Completed int64 `json:"completed" protobuf:"3"`
	// Available reports whether the directory could be read and is the one that was there before.
	Available bool   `json:"available" protobuf:"4"`
	Reason    string `json:"reason,omitempty" protobuf:"5"`
	Message   string `json:"message,omitempty" protobuf:"6"`
	Files     int    `json:"files" protobuf:"7"`
	// Emptied reports that every file of the root went away at once: nothing is removed without a confirmation.
	Emptied bool `json:"emptied,omitempty" protobuf:"8"`
	// Unsettled is how many files were seen that are new or changed and don't count as written yet.
	Unsettled int `json:"unsettled,omitempty" protobuf:"9"`
}

// DeepCopy implements typed.DeepCopyable; nothing in it is shared.
func (s FileRootSpec) DeepCopy() FileRootSpec { return s }

// FileRootExtension supplies the definition of FileRoot.
type FileRootExtension struct{}

// ResourceDefinition implements typed.Extension.
func (FileRootExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(FileRootType, NamespaceBridge, []string{"root", "roots", "fileroot", "fileroots"},
		column{Name: "Path", JSONPath: "{.path}"},
		column{Name: "Reason", JSONPath: "{.reason}"})
}

// NewFileRoot returns an empty FileRoot with every default set.
func NewFileRoot(id string) *FileRoot { return newResource[FileRootSpec, FileRootExtension](id) }

var _ = register[FileRootSpec, FileRootExtension]("FileRoot", "FileRoots", Observed, "")
