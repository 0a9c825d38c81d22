package resources

import (
	"fmt"
	"net/url"
	"path"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// HostType is the COSI type of Host.
const HostType = "Hosts" + typeSuffix

// Host is a hypervisor as it was declared.
type Host = typed.Resource[HostSpec, HostExtension]

// HostSpec is how a hypervisor is reached and what may be placed on it.
type HostSpec struct {
	URI         string     `json:"uri" protobuf:"1" doc:"libvirt connection URI, within policy.hostURIs, or sim://NAME"`
	Capacity    Capacity   `json:"capacity,omitzero" protobuf:"2" doc:"default: what the hypervisor reports"`
	Overcommit  Overcommit `json:"overcommit,omitzero" protobuf:"3"`
	Schedulable bool       `json:"schedulable" protobuf:"4" default:"true" doc:"false: no VM is newly placed here"`
	Drain       bool       `json:"drain,omitempty" protobuf:"5" doc:"true: VMs are moved away where they can be"`
	// SharedPaths are directories that have the same files on every host that names them.
	SharedPaths []string `json:"sharedPaths,omitempty" protobuf:"6" doc:"directories that every host which names them has too, as an NFS mount: a VM whose disks are all files in them can move between these hosts"`
}

// Capacity is an amount of CPUs, memory and disk. Zero means: as the hypervisor reports.
type Capacity struct {
	CPUs   int  `json:"cpus,omitempty" protobuf:"1"`
	Memory Size `json:"memory,omitempty" protobuf:"2"`
	Disk   Size `json:"disk,omitempty" protobuf:"3"`
}

// Overcommit multiplies a capacity for placement. Range 0.1 to 100.
type Overcommit struct {
	CPUs   float64 `json:"cpus" protobuf:"1" default:"4"`
	Memory float64 `json:"memory" protobuf:"2" default:"1"`
	Disk   float64 `json:"disk" protobuf:"3" default:"1"`
}

// Validate implements Validator. Whether policy allows the URI is the admission's question.
func (s *HostSpec) Validate() (errs FieldErrors) {
	u, err := url.Parse(s.URI)

	switch {
	case s.URI == "":
		errs.Add("spec.uri", "a libvirt URI is required, as qemu:///system or sim://NAME")
	case err != nil || u.Scheme == "":
		errs.Add("spec.uri", "%q is not a libvirt URI, as qemu:///system or qemu+ssh://root@host/system", s.URI)
	}

	for field, f := range map[string]float64{"cpus": s.Overcommit.CPUs, "memory": s.Overcommit.Memory, "disk": s.Overcommit.Disk} {
		if !(f >= 0.1 && f <= 100) {
			errs.Add("spec.overcommit."+field, "%g is not between 0.1 and 100", f)
		}
	}

	for i, dir := range s.SharedPaths {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
			errs.Add(fmt.Sprintf("spec.sharedPaths[%d]", i), "%q is not the path of a directory, as /srv/vms", dir)
		}
	}

	if s.Capacity.CPUs < 0 {
		errs.Add("spec.capacity.cpus", "%d is negative", s.Capacity.CPUs)
	}

	return errs
}

// DeepCopy implements typed.DeepCopyable.
func (s HostSpec) DeepCopy() HostSpec {
	s.SharedPaths = cloneSlice(s.SharedPaths)

	return s
}

// HostExtension supplies the definition of Host.
type HostExtension struct{}

// ResourceDefinition implements typed.Extension.
func (HostExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(HostType, NamespaceHosts, []string{"host", "hosts"},
		column{Name: "URI", JSONPath: "{.uri}"})
}

// NewHost returns an empty Host with every default set.
func NewHost(id string) *Host { return newResource[HostSpec, HostExtension](id) }

var _ = register[HostSpec, HostExtension]("Host", "Hosts", Declared, "HostStatus")
