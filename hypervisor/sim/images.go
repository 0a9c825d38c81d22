package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gateway/hypervisor"
	"gateway/resources"
)

// image is the file of an image that a gateway stored on a host. It is never changed in place.
type image struct {
	name     string
	gateway  string
	bytes    resources.Size
	virtual  resources.Size
	complete bool
}

// File is a file that others have put on a host.
type File struct {
	Content []byte
	// VirtualSize is the size of the disk that it is; 0: that of the file.
	VirtualSize resources.Size
}

// Images implements hypervisor.Driver. The answer is ordered by name.
func (d *driver) Images(ctx context.Context) (all []hypervisor.ImageFile, err error) {
	err = d.do(ctx, op{call: "Images", doing: "listing the images"}, func() error {
		for _, name := range slices.Sorted(maps.Keys(d.host.images)) {
			if i := d.host.images[name]; i.gateway == d.gateway {
				all = append(all, d.host.imageFile(i))
			}
		}

		return nil
	})

	return all, err
}

func (h *Host) imageFile(i *image) hypervisor.ImageFile {
	return hypervisor.ImageFile{Name: i.name, Path: h.volumePath(i.name), Bytes: i.bytes, VirtualSize: i.virtual, Complete: i.complete}
}

// startFrom returns the names of the volumes that start from an image.
func (h *Host) startFrom(image string) (users []string) {
	for _, name := range slices.Sorted(maps.Keys(h.volumes)) {
		if h.volumes[name].backing == h.volumePath(image) {
			users = append(users, name)
		}
	}

	return users
}

// StoreImage implements hypervisor.Driver. As on a real host the file is there, and grows, while the content comes.
func (d *driver) StoreImage(ctx context.Context, spec hypervisor.ImageSpec, content io.Reader) (file hypervisor.ImageFile, err error) {
	o := op{call: "StoreImage", doing: "storing image", subject: spec.Name}

	if file, done, err := d.beginImage(spec.Name); err != nil || done {
		return file, err
	}

	n, err := io.Copy(io.Discard, content)
	if err != nil {
		// Nothing is left, unless the connection was lost meanwhile.
		return file, errors.Join(fmt.Errorf("error storing image %q: %w", spec.Name, err), d.abortImage(spec.Name))
	}

	err = d.do(ctx, o, func() error {
		whole := &image{name: spec.Name, gateway: d.gateway, bytes: resources.Size(n), virtual: spec.VirtualSize, complete: true}
		d.host.setImage(whole)
		file = d.host.imageFile(whole)

		return nil
	})

	return file, err
}

// beginImage makes the incomplete file. done reports that the whole one is there.
func (d *driver) beginImage(name string) (file hypervisor.ImageFile, done bool, err error) {
	err = d.change("StoreImage", func() error {
		if _, _, _, ok := hypervisor.ParseImageName(name); !ok {
			return fmt.Errorf("%w: %q is no name of an image", hypervisor.ErrInvalid, name)
		}

		current := d.host.images[name]

		switch {
		case current != nil && current.gateway != d.gateway:
			return hypervisor.ErrForeign
		case current != nil && current.complete:
			file, done = d.host.imageFile(current), true
		default:
			d.host.setImage(&image{name: name, gateway: d.gateway})
		}

		return nil
	})

	return file, done, err
}

func (d *driver) abortImage(name string) error {
	return d.change("StoreImage", func() error {
		d.host.removeImage(name)

		return nil
	})
}

// RemoveImage implements hypervisor.Driver.
func (d *driver) RemoveImage(ctx context.Context, name string) error {
	return d.do(ctx, op{call: "RemoveImage", doing: "removing image", subject: name}, func() error {
		i := d.host.images[name]

		switch {
		case i == nil:
			return nil
		case i.gateway != d.gateway:
			return hypervisor.ErrForeign
		}

		if used := d.host.startFrom(name); len(used) > 0 {
			return fmt.Errorf("%w: %s start from it", hypervisor.ErrInUse, strings.Join(used, ", "))
		}

		d.host.removeImage(name)

		return nil
	})
}

// ReadFile implements hypervisor.Driver.
func (d *driver) ReadFile(ctx context.Context, path string, content io.Writer) (hypervisor.File, error) {
	var file File

	err := d.do(ctx, op{call: "ReadFile", doing: "reading file", subject: path}, func() error {
		found, ok := d.host.files[path]
		if !ok {
			return hypervisor.ErrNotFound
		}

		file = found

		return nil
	})
	if err != nil {
		return hypervisor.File{}, err
	}

	if content != nil {
		if _, err := content.Write(file.Content); err != nil {
			return hypervisor.File{}, fmt.Errorf("error reading file %q: %w", path, err)
		}
	}

	size := resources.Size(len(file.Content))

	return hypervisor.File{Bytes: size, VirtualSize: max(size, file.VirtualSize)}, nil
}

// backingSize returns the size of what a volume is to start from. Files elsewhere are taken to exist, as those of domains.
func (h *Host) backingSize(path string) (resources.Size, error) {
	name, inside := strings.CutPrefix(path, h.volumeDir()+"/")
	if !inside {
		file := h.files[path]

		return max(file.VirtualSize, resources.Size(len(file.Content))), nil
	}

	i := h.images[name]
	if i == nil || !i.complete {
		return 0, fmt.Errorf("%w: there is no image %q to start from", hypervisor.ErrInvalid, name)
	}

	return i.virtual, nil
}

func (h *Host) setImage(i *image) {
	h.images[i.name] = i
	h.record(record{Image: imageRecordOf(i)})
}

// removeImage takes the file of an image away. Volumes that start from it lose what they are.
func (h *Host) removeImage(name string) {
	for _, user := range h.startFrom(name) {
		h.violate("image %q was removed under volume %q", name, user)
	}

	delete(h.images, name)
	h.record(record{ImageGone: name})
}

// AddFile puts a file on the host as somebody else.
func (h *Host) AddFile(path string, f File) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.files[path] = f
}

// DropImage removes the file of an image behind the gateway's back, and reports whether there was one.
func (h *Host) DropImage(name string) bool {
	found := false

	h.keepChange(func() {
		if found = h.images[name] != nil; found {
			delete(h.images, name)
			h.record(record{ImageGone: name})
		}
	})

	return found
}

// Images returns the names of all files of images, and whether they are complete.
func (h *Host) Images() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	all := make(map[string]bool, len(h.images))
	for name, i := range h.images {
		all[name] = i.complete
	}

	return all
}
