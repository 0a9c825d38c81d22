package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// image returns the image's file on the VM's host, and holds the image. nil without an error: it is not there yet, and the
// definition is blocked; the ImageStatus wakes the VM.
func (p *pass) image(ctx context.Context, name string) (*resources.ImageOnHost, error) {
	image, err := p.holdImage(ctx, name)
	if err != nil {
		return nil, err
	}

	if image == nil {
		p.imageMissing(resources.ReasonImageMissing, fmt.Sprintf("there is no image %s, or it is being removed", name))

		return nil, nil //nolint:nilnil // not there yet is a state
	}

	status, err := get[*resources.ImageStatus](ctx, p, resources.NewImageStatus(name).Metadata())
	if err != nil {
		return nil, err
	}

	// A status of an earlier revision may be about another content.
	if status == nil || status.TypedSpec().ObservedRevision != resources.RevisionOf(image.Metadata()) {
		p.imageMissing(resources.ReasonImageFetching, fmt.Sprintf("image %s is not on host %s yet", name, p.host()))

		return nil, nil //nolint:nilnil // see above
	}

	hosts := status.TypedSpec().Hosts
	at := slices.IndexFunc(hosts, func(h resources.ImageOnHost) bool { return h.Host == p.host() })

	switch {
	case at < 0:
		p.imageMissing(resources.ReasonImageFetching, fmt.Sprintf("image %s is not on host %s yet", name, p.host()))
	case !hosts[at].Ready:
		message := strings.TrimSuffix(fmt.Sprintf("image %s on host %s: %s", name, p.host(), hosts[at].Why()), ": ")
		p.imageMissing(orElse(hosts[at].Reason, resources.ReasonImageMissing), message)
	default:
		return &hosts[at], nil
	}

	return nil, nil //nolint:nilnil // see above
}

// holdImage holds an image; nil: there is none that may be used.
func (p *pass) holdImage(ctx context.Context, name string) (*resources.Image, error) {
	// A VM that was let go of may not hold an image that others let go of in the same moment.
	p.c.images.Lock()
	defer p.c.images.Unlock()

	ptr := resources.NewImage(name).Metadata()

	image, err := get[*resources.Image](ctx, p, ptr)
	if err != nil || image == nil || resources.IsLeaving(image.Metadata()) {
		return nil, err
	}

	if ok, err := chain.Hold[*resources.Image](ctx, p.r, ptr, finalizer); err != nil || !ok {
		return nil, err
	}

	image, err = get[*resources.Image](ctx, p, ptr)
	if err != nil || !chain.Running(image) {
		return nil, err
	}

	return image, nil
}

func (p *pass) imageMissing(reason, message string) {
	p.condition(resources.ConditionImageReady, resources.ConditionFalse, reason, message)
	p.block(reason, message)
}

// uses reports whether a VM has a disk from the image.
func uses(vm *resources.VMConfig, image string) bool {
	return slices.ContainsFunc(vm.TypedSpec().Disks, func(d resources.Disk) bool { return d.Image == image })
}

// users returns the VMs that use the image and were not let go, without except.
func users(ctx context.Context, r controller.QRuntime, image string, except resource.ID) ([]resource.Pointer, error) {
	list, err := r.ListUncached(ctx, resources.NewVMConfig("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs that use image %q: %w", image, err)
	}

	var found []resource.Pointer

	for _, item := range list.Items {
		vm, ok := item.(*resources.VMConfig)
		if ok && vm.Metadata().ID() != except && uses(vm, image) && (chain.Running(vm) || chain.Has(vm, finalizer)) {
			found = append(found, chain.VM(vm.Metadata().ID()))
		}
	}

	return found, nil
}

// news tells changes of an image's status that matter to VMs from progress, which would wake all its VMs every few seconds.
type news struct {
	mu   sync.Mutex // guards last
	last map[resource.ID]string
}

// is reports whether the status says something that it did not say before; nil: it is gone.
func (n *news) is(image resource.ID, status *resources.ImageStatus) bool {
	text := ""

	if status != nil {
		text = fmt.Sprintf("%d\n", status.TypedSpec().ObservedRevision)

		for _, h := range status.TypedSpec().Hosts {
			text += fmt.Sprintf("%s %t %s %s %s\n", h.Host, h.Ready, h.Path, h.Reason, h.Why())
		}
	}

	n.mu.Lock()
	defer n.mu.Unlock()

	if n.last == nil {
		n.last = map[resource.ID]string{}
	}

	if last, known := n.last[image]; known && last == text {
		return false
	}

	if n.last[image] = text; status == nil {
		delete(n.last, image)
	}

	return true
}

// mapImageStatus maps a status of an image to the VMs that use it, if it says something new to them.
func (c *Controller) mapImageStatus(ctx context.Context, r controller.QRuntime, image resource.ID) ([]resource.Pointer, error) {
	status, err := chain.Get[*resources.ImageStatus](ctx, r, resources.NewImageStatus(image).Metadata())
	if err != nil || !c.news.is(image, status) {
		return nil, err
	}

	return users(ctx, r, image, "")
}

// releaseImage lets go of an image that is leaving and that no VM but except uses. It returns the VMs that do. An image that is
// not leaving stays held: a VM may take it up at any time, and the last one of an image that goes lets go.
// It is called with the controller's images lock held.
func (c *Controller) releaseImage(ctx context.Context, r controller.QRuntime, name string, except resource.ID) ([]resource.Pointer, error) {
	found, err := users(ctx, r, name, except)
	if err != nil || len(found) > 0 {
		return found, err
	}

	image, err := chain.Get[*resources.Image](ctx, r, resources.NewImage(name).Metadata())
	if err != nil || image == nil || !resources.IsLeaving(image.Metadata()) || !chain.Has(image, finalizer) {
		return nil, err
	}

	return nil, chain.Release(ctx, r, image.Metadata(), finalizer)
}

// releaseConfig lets go of the VM and of the images that nobody else uses.
func (p *pass) releaseConfig(ctx context.Context) error {
	p.c.images.Lock()
	defer p.c.images.Unlock()

	for i := range p.config.TypedSpec().Disks {
		image := p.config.TypedSpec().Disks[i].Image
		if image == "" {
			continue
		}

		if _, err := p.c.releaseImage(ctx, p.r, image, p.id); err != nil {
			return err
		}
	}

	return chain.Release(ctx, p.r, p.config.Metadata(), finalizer)
}
