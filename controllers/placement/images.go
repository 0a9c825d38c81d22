package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// sizeOf is the size of the disk that an image is: the largest, should it be a path with another file on each host. 0: not known.
func sizeOf(status *resources.ImageStatus) (size resources.Size) {
	for _, h := range status.TypedSpec().Hosts {
		size = max(size, h.VirtualSize)
	}

	return size
}

// listImages reads the sizes of all images.
func (l *ledger) listImages(ctx context.Context, r controller.UncachedReader) error {
	statuses, err := r.ListUncached(ctx, resources.NewImageStatus("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the images: %w", err)
	}

	l.sizes = map[string]resources.Size{}

	for _, item := range statuses.Items {
		if status, ok := item.(*resources.ImageStatus); ok {
			l.sizes[status.Metadata().ID()] = sizeOf(status)
		}
	}

	return nil
}

// mapImage leads to the VMs with disks that are as large as an image, once its size is known. What was known of one whose file is not
// there for the moment stays.
func (c *Controller) mapImage(ctx context.Context, r controller.QRuntime, name string) ([]resource.Pointer, error) {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	status, err := chain.Get[*resources.ImageStatus](ctx, r, resources.NewImageStatus(name).Metadata())
	if err != nil {
		return nil, err
	}

	if status == nil {
		delete(l.sizes, name)

		return nil, nil
	}

	size := sizeOf(status)
	if size == 0 || size == l.sizes[name] {
		return nil, nil
	}

	l.sizes[name] = size

	var woken []resource.Pointer

	for vm, e := range l.vms {
		if slices.Contains(e.images, name) {
			woken = append(woken, chain.VM(vm))
		}
	}

	return woken, nil
}
