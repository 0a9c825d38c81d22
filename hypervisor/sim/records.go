package sim

import (
	"fmt"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// record is one line of a state file: exactly one field is set. Names of fields stay as they are, or old files are not
// read any more. Sizes are plain bytes, since reading their text took half of the time to load 100,000 domains.
type record struct {
	Domain      *domainRecord  `json:"domain,omitempty"`
	Power       *powerRecord   `json:"power,omitempty"`
	Gone        string         `json:"gone,omitempty"`
	Network     *networkRecord `json:"network,omitempty"`
	NetworkGone string         `json:"networkGone,omitempty"`
	Volume      *volumeRecord  `json:"volume,omitempty"`
	VolumeGone  string         `json:"volumeGone,omitempty"`
	Image       *imageRecord   `json:"image,omitempty"`
	ImageGone   string         `json:"imageGone,omitempty"`
}

// domainRecord is a whole domain. Live is nil when the running domain has just what is defined, or is off.
type domainRecord struct {
	Gateway   string      `json:"gateway,omitempty"`
	Spec      *specRecord `json:"spec"`
	Live      *specRecord `json:"live,omitempty"`
	State     string      `json:"state"`
	Reason    string      `json:"reason,omitempty"`
	On        bool        `json:"on,omitempty"`
	Lease     int64       `json:"lease,omitempty"` // Unix milliseconds
	Transient bool        `json:"transient,omitempty"`
	Autostart bool        `json:"autostart,omitempty"`
}

type specRecord struct {
	Name        string                       `json:"name"`
	UUID        string                       `json:"uuid"`
	VM          string                       `json:"vm,omitempty"`
	Revision    int64                        `json:"revision,omitempty"`
	Description string                       `json:"description,omitempty"`
	CPUs        int                          `json:"cpus"`
	MaxCPUs     int                          `json:"maxCpus"`
	Memory      int64                        `json:"memory"`
	MaxMemory   int64                        `json:"maxMemory"`
	Firmware    string                       `json:"firmware"`
	Boot        *resources.Boot              `json:"boot,omitempty"`
	Disks       []hypervisor.DomainDisk      `json:"disks,omitempty"`
	Interfaces  []hypervisor.DomainInterface `json:"interfaces,omitempty"`
	Graphics    string                       `json:"graphics"`
	GuestAgent  bool                         `json:"guestAgent,omitempty"`
}

// powerRecord is a change of state. A domain that goes on has what is defined.
type powerRecord struct {
	UUID   string `json:"uuid"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	On     bool   `json:"on,omitempty"`
	Lease  int64  `json:"lease,omitempty"`
}

type networkRecord struct {
	Gateway string                 `json:"gateway,omitempty"`
	Spec    hypervisor.NetworkSpec `json:"spec"`
	Active  bool                   `json:"active"`
	Starts  int                    `json:"starts,omitempty"`
}

type volumeRecord struct {
	Name    string `json:"name"`
	Gateway string `json:"gateway,omitempty"`
	Size    int64  `json:"size"`
	Backing string `json:"backing,omitempty"`
	Content []byte `json:"content,omitempty"`
}

type imageRecord struct {
	Name     string `json:"name"`
	Gateway  string `json:"gateway,omitempty"`
	Bytes    int64  `json:"bytes"`
	Virtual  int64  `json:"virtual"`
	Complete bool   `json:"complete,omitempty"`
}

func specRecordOf(s *hypervisor.DomainSpec) *specRecord {
	return &specRecord{
		Name: s.Name, UUID: s.UUID, VM: s.VM, Revision: s.Revision, Description: s.Description,
		CPUs: s.CPUs, MaxCPUs: s.MaxCPUs, Memory: int64(s.Memory), MaxMemory: int64(s.MaxMemory),
		Firmware: s.Firmware, Boot: s.Boot, Disks: s.Disks, Interfaces: s.Interfaces, Graphics: s.Graphics, GuestAgent: s.GuestAgent,
	}
}

func (r *specRecord) spec() *hypervisor.DomainSpec {
	return &hypervisor.DomainSpec{
		Name: r.Name, UUID: r.UUID, VM: r.VM, Revision: r.Revision, Description: r.Description,
		CPUs: r.CPUs, MaxCPUs: r.MaxCPUs, Memory: resources.Size(r.Memory), MaxMemory: resources.Size(r.MaxMemory),
		Firmware: r.Firmware, Boot: r.Boot, Disks: r.Disks, Interfaces: r.Interfaces, Graphics: r.Graphics, GuestAgent: r.GuestAgent,
	}
}

func domainRecordOf(d *domain) *domainRecord {
	r := &domainRecord{
		Gateway: d.gateway, Spec: specRecordOf(d.spec), State: d.state, Reason: d.reason, On: d.live != nil,
		Lease: d.lease.UnixMilli(), Transient: d.transient, Autostart: d.autostart,
	}

	if d.live != nil && d.live != d.spec {
		r.Live = specRecordOf(d.live)
	}

	return r
}

func powerRecordOf(d *domain) *powerRecord {
	return &powerRecord{UUID: d.spec.UUID, State: d.state, Reason: d.reason, On: d.live != nil, Lease: d.lease.UnixMilli()}
}

func networkRecordOf(n *network) *networkRecord {
	return &networkRecord{Gateway: n.gateway, Spec: n.spec, Active: n.active, Starts: n.starts}
}

func volumeRecordOf(v *volume) *volumeRecord {
	return &volumeRecord{Name: v.name, Gateway: v.gateway, Size: int64(v.size), Backing: v.backing, Content: v.content}
}

func volumeOf(r *volumeRecord) *volume {
	return &volume{name: r.Name, gateway: r.Gateway, size: resources.Size(r.Size), backing: r.Backing, content: r.Content}
}

func imageRecordOf(i *image) *imageRecord {
	return &imageRecord{Name: i.name, Gateway: i.gateway, Bytes: int64(i.bytes), Virtual: int64(i.virtual), Complete: i.complete}
}

func imageOf(r *imageRecord) *image {
	return &image{name: r.Name, gateway: r.Gateway, bytes: resources.Size(r.Bytes), virtual: resources.Size(r.Virtual), complete: r.Complete}
}

// records returns what makes up the host now.
func (h *Host) records() []record {
	all := make([]record, 0, h.objects())

	for _, n := range h.networks {
		all = append(all, record{Network: networkRecordOf(n)})
	}

	for _, v := range h.volumes {
		all = append(all, record{Volume: volumeRecordOf(v)})
	}

	for _, i := range h.images {
		all = append(all, record{Image: imageRecordOf(i)})
	}

	for _, d := range h.domains {
		all = append(all, record{Domain: domainRecordOf(d)})
	}

	return all
}

// apply replays one record of a state file.
func (h *Host) apply(r *record) error {
	switch {
	case r.Domain != nil:
		return h.applyDomain(r.Domain)
	case r.Power != nil:
		return h.applyPower(r.Power)
	case r.Gone != "":
		if d := h.domains[r.Gone]; d != nil {
			delete(h.domains, r.Gone)
			delete(h.names, d.spec.Name)
		}
	case r.Network != nil:
		h.networks[r.Network.Spec.Name] = &network{gateway: r.Network.Gateway, spec: r.Network.Spec, active: r.Network.Active, starts: r.Network.Starts}
	case r.NetworkGone != "":
		delete(h.networks, r.NetworkGone)
	case r.Volume != nil:
		h.volumes[r.Volume.Name] = volumeOf(r.Volume)
	case r.VolumeGone != "":
		delete(h.volumes, r.VolumeGone)
	case r.Image != nil:
		h.images[r.Image.Name] = imageOf(r.Image)
	case r.ImageGone != "":
		delete(h.images, r.ImageGone)
	default:
		return fmt.Errorf("a record of an unknown kind")
	}

	return nil
}

func (h *Host) applyDomain(r *domainRecord) error {
	if r.Spec == nil {
		return fmt.Errorf("a domain without a definition")
	}

	d := &domain{
		gateway: r.Gateway, spec: r.Spec.spec(), state: r.State, reason: r.Reason,
		lease: time.UnixMilli(r.Lease), transient: r.Transient, autostart: r.Autostart,
	}

	switch {
	case r.Live != nil:
		d.live = r.Live.spec()
	case r.On:
		d.live = d.spec
	}

	if old := h.domains[d.spec.UUID]; old != nil {
		delete(h.names, old.spec.Name)
	}

	h.insert(d)

	return nil
}

func (h *Host) applyPower(r *powerRecord) error {
	d := h.domains[r.UUID]
	if d == nil {
		return fmt.Errorf("a change of domain %s, which is not there", r.UUID)
	}

	d.state, d.reason, d.lease = r.State, r.Reason, time.UnixMilli(r.Lease)

	switch {
	case !r.On:
		d.live = nil
	case d.live == nil:
		d.live = d.spec
	}

	return nil
}
