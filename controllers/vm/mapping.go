package vm

import (
	"context"
	"fmt"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// MapInput implements controller.QController: it finds the VMs that have to look again because of a change, and notes what
// led to it.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	switch ptr.Type() {
	case resources.OverrideType, resources.VMPlacementType, resources.NetworkConfigType:
		return c.mapSameName(ctx, r, ptr)
	case resources.HoldType:
		name, isVM := strings.CutPrefix(ptr.ID(), resources.HoldID("VM", ""))
		if !isVM {
			return nil, nil
		}

		return []resource.Pointer{chain.VM(name)}, nil
	case resources.HostType, resources.HostStatusType:
		return mapHost(ctx, r, ptr.ID())
	case resources.NetworkType:
		return nil, nil // what changes of it for a VM comes by its NetworkConfig; it is an input since seeds read it
	case resources.ImageType:
		c.images.Lock()
		defer c.images.Unlock()

		return c.releaseImage(ctx, r, ptr.ID(), "")
	case resources.ImageStatusType:
		return c.mapImageStatus(ctx, r, ptr.ID())
	case resources.ResyncType:
		return c.mapResync(ctx, r, ptr)
	default:
		return c.mapEvent(ctx, r, ptr)
	}
}

// mapSameName maps what has the VM's name, and notes the cause that it was written with.
func (c *Controller) mapSameName(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) ([]resource.Pointer, error) {
	changed, err := chain.Get[resource.Resource](ctx, r, ptr)
	if err != nil {
		return nil, err
	}

	if changed != nil {
		cause := resources.CauseOf(changed.Metadata())
		if o, ok := changed.(*resources.Override); ok {
			cause = orElse(o.TypedSpec().Cause, cause)
		}

		c.causes.Note(ptr.ID(), cause)
	}

	return []resource.Pointer{chain.VM(ptr.ID())}, nil
}

// mapHost maps a host to the VMs that are placed on it.
func mapHost(ctx context.Context, r controller.QRuntime, host resource.ID) ([]resource.Pointer, error) {
	list, err := r.ListUncached(ctx, resources.NewVMPlacement("").Metadata(),
		state.WithLabelQuery(resource.LabelEqual(resources.LabelHost, host)))
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs on host %q: %w", host, err)
	}

	vms := make([]resource.Pointer, 0, len(list.Items))
	for _, p := range list.Items {
		vms = append(vms, chain.VM(p.Metadata().ID()))
	}

	return vms, nil
}

// mapResync maps a resync to the VMs that it asks for. A slice is taken from the VMs that were passed once, without listing
// them: the state copies all that it lists, which at 100,000 VMs took longer than the slice itself.
func (c *Controller) mapResync(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) ([]resource.Pointer, error) {
	vms, cause, _, err := chain.MapResync(ctx, r, ptr, c.metrics.vms.names)
	if err != nil {
		return nil, err
	}

	for _, vm := range vms {
		c.causes.Note(vm.ID(), cause)
	}

	return vms, nil
}

// mapEvent maps an event to its target, and a domain's event to its VM too. The event of a foreign domain wakes the VM of
// the same name, whose name it may have taken.
func (c *Controller) mapEvent(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) ([]resource.Pointer, error) {
	event, err := chain.Get[resource.Resource](ctx, r, ptr)
	if err != nil || event == nil {
		return nil, err
	}

	attributes := resources.AttributesOf(event)
	if attributes == nil {
		return nil, nil
	}

	vms, err := chain.TargetVMs(ctx, r, attributes.Target)
	if err != nil {
		return nil, err
	}

	if domain, ok := event.(*resources.DomainEvent); ok {
		if name := orElse(domain.TypedSpec().VM, domain.TypedSpec().Domain); name != "" {
			vms = append(vms, chain.VM(name))
		}
	}

	for _, vm := range vms {
		c.causes.Note(vm.ID(), attributes.ID)
		c.sights.note(vm.ID(), sight{id: attributes.ID, source: attributes.Source, received: attributes.Received})
	}

	return vms, nil
}
