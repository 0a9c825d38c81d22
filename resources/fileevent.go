package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// FileEventType is the COSI type of FileEvent.
const FileEventType = "FileEvents" + typeSuffix

// FileEvent is the last change of a file under a documents directory. Its id is FileID of the path.
type FileEvent = typed.Resource[FileEventSpec, FileEventExtension]

// FileEventSpec is the newest version of one file: state-like, updated in place. The reader reads the file.
type FileEventSpec struct {
	Event  EventAttributes `json:"event" protobuf:"1"`
	Path   string          `json:"path" protobuf:"2"`
	Root   string          `json:"root" protobuf:"3"`
	Digest string          `json:"digest" protobuf:"4"`
	Bytes  int64           `json:"bytes" protobuf:"5"`
}

// Attributes implements EventSpec.
func (s *FileEventSpec) Attributes() *EventAttributes { return &s.Event }

// DeepCopy implements typed.DeepCopyable.
func (s FileEventSpec) DeepCopy() FileEventSpec {
	s.Event = s.Event.Clone()

	return s
}

// FileEventExtension supplies the definition of FileEvent.
type FileEventExtension struct{}

// ResourceDefinition implements typed.Extension.
func (FileEventExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(FileEventType, NamespaceEvents, []string{"fileevent", "fileevents"},
		column{Name: "Path", JSONPath: "{.path}"})
}

// NewFileEvent returns an empty FileEvent with every default set.
func NewFileEvent(id string) *FileEvent { return newResource[FileEventSpec, FileEventExtension](id) }

var _ = register[FileEventSpec, FileEventExtension]("FileEvent", "FileEvents", Event, "")
