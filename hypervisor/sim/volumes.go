package sim

import (
	"bytes"
	"context"
	"fmt"

	"gateway/hypervisor"
	"gateway/resources"
)

// volume is one volume of a host. It is never changed in place.
type volume struct {
	name    string
	gateway string
	size    resources.Size
	backing string
	// content is what a raw file of ours has in it.
	content []byte
}

// EnsureVolume implements hypervisor.Driver.
func (d *driver) EnsureVolume(ctx context.Context, spec hypervisor.VolumeSpec) (path string, created bool, err error) {
	err = d.do(ctx, op{call: "EnsureVolume", doing: "making volume", subject: spec.Name}, func() error {
		h := d.host

		if spec.Name == "" || spec.Size < 0 {
			return fmt.Errorf("%w: a volume needs a name and a size", hypervisor.ErrInvalid)
		}

		current := h.volumes[spec.Name]

		if current != nil && spec.Content != nil && current.gateway == d.gateway && !bytes.Equal(current.content, spec.Content) {
			current = nil
		}

		smallest, err := h.startingSize(&spec, current != nil)
		if err != nil {
			return err
		}

		switch {
		case current == nil && spec.MustExist:
			return hypervisor.ErrNotFound
		case current == nil:
			v := &volume{name: spec.Name, gateway: d.gateway, size: max(spec.Size, smallest), content: spec.Content}
			if !spec.Copy {
				v.backing = spec.Backing
			}

			h.setVolume(v)

			created = true
		case current.gateway != d.gateway:
			return hypervisor.ErrForeign
		case current.size < spec.Size:
			grown := *current
			grown.size = spec.Size
			h.setVolume(&grown)
		}

		path = h.volumePath(spec.Name)

		return nil
	})

	return path, created, err
}

// startingSize returns the least size of a volume that is to be made: that of what it starts from, or of its content.
func (h *Host) startingSize(spec *hypervisor.VolumeSpec, exists bool) (resources.Size, error) {
	if exists || spec.Backing == "" {
		return resources.Size(len(spec.Content)), nil
	}

	size, err := h.backingSize(spec.Backing)
	if err == nil && spec.Size > 0 && spec.Size < size {
		err = fmt.Errorf("%w: %s is smaller than its image of %s", hypervisor.ErrInvalid, spec.Size, size)
	}

	return size, err
}

// RemoveVolume implements hypervisor.Driver.
func (d *driver) RemoveVolume(ctx context.Context, name string) error {
	return d.do(ctx, op{call: "RemoveVolume", doing: "removing volume", subject: name}, func() error {
		v := d.host.volumes[name]
		if v == nil {
			return nil
		}

		if v.gateway != d.gateway {
			return hypervisor.ErrForeign
		}

		d.host.volumeLeaves(name)
		d.host.removeVolume(name)

		return nil
	})
}

// DiskTrouble implements hypervisor.Driver.
func (d *driver) DiskTrouble(ctx context.Context, uuid string) (trouble string, err error) {
	err = d.do(ctx, op{call: "DiskTrouble", doing: "looking at the disks of domain", subject: uuid}, func() error {
		_, err := d.find(uuid)
		if err == nil && d.host.full {
			trouble = "no space is left"
		}

		return err
	})

	return trouble, err
}

// volumeLeaves notes when a volume is taken away from under a domain that is on.
func (h *Host) volumeLeaves(name string) {
	path := h.volumePath(name)

	for uuid, dom := range h.domains {
		if dom.live == nil {
			continue
		}

		for _, disk := range dom.live.Disks {
			if disk.Path == path {
				h.violate("volume %q was removed under domain %q (%s)", name, dom.spec.Name, uuid)
			}
		}
	}
}

func (h *Host) setVolume(v *volume) {
	h.volumes[v.name] = v
	h.record(record{Volume: volumeRecordOf(v)})
}

func (h *Host) removeVolume(name string) {
	delete(h.volumes, name)
	h.record(record{VolumeGone: name})
}
