package adoption

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/resources"
)

// Domain is an existing domain on a host.
type Domain struct {
	Host string
	hypervisor.Inspection
	// VM is the name that its VM is to have; empty: one that is made from the domain's.
	VM string
}

// Declared is what is declared already.
type Declared struct {
	VMs      map[string]*resources.VMConfig
	Statuses map[string]*resources.VMStatus
	Networks map[string]*resources.Network
	// OnHosts has the networks of each host that was asked.
	OnHosts map[string][]hypervisor.Network
}

// Remark is what a person has to know about a document, or about a domain that has none.
type Remark struct {
	// Object is KIND/NAME, or empty where there is no document.
	Object string `json:"object,omitempty"`
	Host   string `json:"host"`
	Domain string `json:"domain"`
	Text   string `json:"text"`
}

// Documents are the documents in the order in which they are to be applied, and what is to be said of them.
type Documents struct {
	Items   []config.Object `json:"items"`
	Remarks []Remark        `json:"remarks,omitempty"`
}

// maker makes the documents one after the other.
type maker struct {
	declared Declared
	made     Documents
	// names are those of VMs that are taken.
	names map[string]bool
	// networks has the names of the documents for what interfaces are on.
	networks map[attachment]string
	taken    map[string]bool
	vms      []config.Object
}

// Make returns the documents that adopt domains, and no others.
func Make(domains []Domain, declared Declared) Documents {
	m := &maker{
		declared: declared, made: Documents{Items: []config.Object{}}, names: map[string]bool{}, networks: map[attachment]string{}, taken: map[string]bool{},
	}

	for name := range declared.VMs {
		m.names[name] = true
	}

	for name := range declared.Networks {
		m.taken[name] = true
	}

	// Names that are said or marked go before names that are made, whoever comes first.
	ordered := slices.Clone(domains)
	slices.SortStableFunc(ordered, func(a, b Domain) int { return rankOf(a) - rankOf(b) })

	for i := range ordered {
		m.adopt(&ordered[i])
	}

	slices.SortStableFunc(m.vms, byName)
	slices.SortStableFunc(m.made.Items, byName)
	m.made.Items = append(m.made.Items, m.vms...)

	return m.made
}

func byName(a, b config.Object) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) }

func rankOf(d Domain) int {
	switch {
	case d.VM != "":
		return 0
	case d.Inspection.VM != "":
		return 1
	default:
		return 2
	}
}

// remark says something of a domain's document.
func (m *maker) remark(d *Domain, object, format string, args ...any) {
	m.made.Remarks = append(m.made.Remarks, Remark{Object: object, Host: d.Host, Domain: d.Name, Text: fmt.Sprintf(format, args...)})
}

// adopt makes the document of one domain, and those of its networks.
func (m *maker) adopt(d *Domain) {
	name, before := m.nameOf(d)
	object := "VM/" + name
	spec := m.spec(d, before)

	if faults := spec.Validate(); len(faults) > 0 {
		for _, f := range faults {
			m.remark(d, "", "it can't be adopted: %s: %s", f.Path, f.Message)
		}

		return
	}

	m.names[name] = true
	m.vms = append(m.vms, config.Object{
		APIVersion: resources.APIVersion, Kind: "VM", Metadata: metadataOf(name, before), Spec: short{&spec, resources.NewVMConfig("").TypedSpec()},
	})

	if d.Gateway != "" {
		m.remark(d, object, "it carries the mark of gateway %s: apply its document only if that gateway is gone for good", d.Gateway)
	}

	if from := replaced(before); from != "" {
		m.remark(d, object, "it is declared by %s: write its document there; an apply takes it over from there instead, where it is a conflict then", from)
	}

	if len(d.Beyond) > 0 {
		m.remark(d, object, "it stays as it is and is not in the document: %s", strings.Join(d.Beyond, "; "))
	}
}

// Replaces is the annotation by which an operator's document takes an object over from who declares it.
const Replaces = "gateway/replaces"

// replaced returns who declares a VM, where it is not the API; empty: nobody does.
func replaced(before *resources.VMConfig) string {
	if before == nil {
		return ""
	}

	if origin := resources.OriginOf(before.Metadata()); !origin.IsZero() && origin.Source != resources.OriginAPI {
		return origin.String()
	}

	return ""
}

func metadataOf(name string, before *resources.VMConfig) config.ObjectMetadata {
	md := config.ObjectMetadata{Name: name}
	if before == nil {
		return md
	}

	if labels := before.Metadata().Labels().Raw(); len(labels) > 0 {
		md.Labels = labels
	}

	md.Annotations = resources.UserAnnotations(before.Metadata())

	if from := replaced(before); from != "" {
		md.Annotations = maps.Clone(md.Annotations)
		if md.Annotations == nil {
			md.Annotations = map[string]string{}
		}

		md.Annotations[Replaces] = from
	}

	return md
}

// spec is the document's: the machine as it is on the hypervisor, the rest as it is declared.
func (m *maker) spec(d *Domain, before *resources.VMConfig) resources.VMConfigSpec {
	spec := *resources.NewVMConfig("").TypedSpec()

	if before != nil {
		spec = before.TypedSpec().DeepCopy()

		if spec.CloudInit != nil {
			spec.CloudInit = nil // the guest has read its seed, which is one of the disks now
		}
	} else {
		spec.Power = powerOf(d.State)
	}

	volumes := spec.Disks

	spec.Description = d.Spec.Description
	spec.CPUs, spec.MaxCPUs = d.Spec.CPUs, d.Spec.MaxCPUs
	spec.Memory, spec.MaxMemory = d.Spec.Memory, d.Spec.MaxMemory
	spec.Firmware, spec.Graphics, spec.GuestAgent = d.Spec.Firmware, d.Spec.Graphics, d.Spec.GuestAgent
	spec.Boot = d.Spec.Boot
	spec.Placement.Host, spec.Placement.Selector = d.Host, nil
	spec.Adopt = &resources.Adopt{Domain: d.Name, UUID: d.UUID, Gateway: d.Gateway}

	// A maximum that is the amount itself is what a document without it means.
	if spec.MaxCPUs == spec.CPUs {
		spec.MaxCPUs = 0
	}

	if spec.MaxMemory == spec.Memory {
		spec.MaxMemory = 0
	}

	if fault := resources.DescriptionFault(spec.Description); fault != "" {
		d.Beyond = append(d.Beyond, "description: "+fault)
		spec.Description = ""
	}

	spec.Disks, spec.Interfaces = disks(d, volumes), m.interfaces(d)

	return spec
}

func powerOf(state string) string {
	switch state {
	case resources.StatePaused:
		return resources.PowerPaused
	case resources.StateRunning:
		return resources.PowerRunning
	default:
		return resources.PowerStopped
	}
}
