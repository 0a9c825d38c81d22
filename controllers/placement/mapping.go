package placement

import (
	"context"
	"maps"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// MapInput implements controller.QController.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, md controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	switch md.Type() {
	case resources.HostType, resources.HostStatusType:
		return c.mapHost(ctx, r, md.ID())
	case resources.VMPlacementType:
		return c.mapPlacement(ctx, r, md)
	case resources.OverrideType:
		return c.mapOverride(ctx, r, md.ID())
	case resources.ImageStatusType:
		return c.mapImage(ctx, r, md.ID())
	case resources.ResyncType:
		return c.mapResync(ctx, r, md)
	default:
		vms, cause, err := chain.MapEvent(ctx, r, md)
		c.note(vms, cause)

		return vms, err
	}
}

func (c *Controller) note(vms []resource.Pointer, cause string) {
	for _, vm := range vms {
		c.causes.Note(vm.ID(), cause)
	}
}

// mapHost wakes the VMs on a host when what holds them there changed, and those that wait for it.
func (c *Controller) mapHost(ctx context.Context, r controller.QRuntime, name string) ([]resource.Pointer, error) {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	if _, err := l.refresh(ctx, r, name); err != nil {
		return nil, err
	}

	// Its own finalizer is one of the changes of a Host that lead here.
	if err := c.releaseHost(ctx, r, name); err != nil {
		return nil, err
	}

	return l.wake(), nil
}

// mapPlacement leads back to a VM only when its placement can be destroyed: all else that happens to it is this
// controller's own doing. What the change means for the VMs that wait is in the ledger.
func (c *Controller) mapPlacement(ctx context.Context, r controller.QRuntime, md controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	woken := l.wake()

	if md.Phase() == resource.PhaseTearingDown && md.FinalizersEmpty() {
		woken = append(woken, chain.VM(md.ID()))
	}

	return woken, nil
}

// mapOverride leads to the VM of an override, and to those that wait for what the override gives up: a label is no part of a
// placement, whose change would wake them.
func (c *Controller) mapOverride(ctx context.Context, r controller.QRuntime, name string) ([]resource.Pointer, error) {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	vm, err := readVM(ctx, r, name)
	if err != nil || vm == nil {
		return nil, err
	}

	if known := l.vms[name]; known != nil {
		next := *known
		next.request = requestOf(vm, l.sizes)
		l.set(next)
	}

	return append(l.wake(), chain.VM(name)), nil
}

func (c *Controller) mapResync(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) ([]resource.Pointer, error) {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return nil, err
	}

	vms, cause, _, err := chain.MapResync(ctx, r, ptr, maps.Keys(l.vms))
	c.note(vms, cause)

	return append(vms, l.wake()...), err
}
