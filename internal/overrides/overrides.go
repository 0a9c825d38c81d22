// Package overrides reads what stands above the documents of VMs, for everybody to whom their labels and specifications
// count. It may import config and resources; sources, controllers and the API do.
package overrides

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/config"
	"gateway/resources"
)

// List reads all resources of a kind: a state's List, or a controller's ListUncached.
type List func(ctx context.Context, kind resource.Kind, options ...state.ListOption) (resource.List, error)

// All returns all overrides, of which there are few, by the names of their VMs.
func All(ctx context.Context, list List) (map[string]*resources.Override, error) {
	found, err := list(ctx, resources.NewOverride("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the overrides: %w", err)
	}

	overrides := make(map[string]*resources.Override, len(found.Items))

	for _, item := range found.Items {
		if o, ok := item.(*resources.Override); ok {
			overrides[o.Metadata().ID()] = o
		}
	}

	return overrides, nil
}

// Labels returns which labels of objects count.
func Labels(ctx context.Context, list List) (resources.Labels, error) {
	overrides, err := All(ctx, list)

	return resources.LabelsUnder(overrides), err
}

// Targeted returns all objects of a kind that a target means by their labels that count.
func Targeted(ctx context.Context, list List, kind *resources.Kind, target *resources.Target) ([]resource.Resource, error) {
	found, err := list(ctx, kind.List())
	if err != nil {
		return nil, fmt.Errorf("error listing the %s of %s: %w", kind.Plural, target, err)
	}

	labels, err := Labels(ctx, list)
	if err != nil {
		return nil, err
	}

	return slices.DeleteFunc(found.Items, func(object resource.Resource) bool {
		md := object.Metadata()

		return !target.Matches(kind.Name, md.ID(), labels.Of(md))
	}), nil
}

// Effective returns the VM with the labels and the specification that count: those of its document, with an override in
// force above them. Neither argument is changed, and each may be nil. An override that does not apply is left out, as the vm
// controller does, which says so.
func Effective(vm *resources.VMConfig, override *resources.Override) *resources.VMConfig {
	if vm == nil || override == nil || override.Metadata().Phase() != resource.PhaseRunning || override.TypedSpec().IsEmpty() {
		return vm
	}

	over, err := override.TypedSpec().InForce(time.Now())
	if err != nil {
		return vm
	}

	effective := vm.DeepCopy().(*resources.VMConfig) //nolint:forcetypeassert // a copy has its original's type
	resources.SetLabels(effective.Metadata(), over.LabelsOver(vm.Metadata().Labels().Raw()))

	if len(over.Patch) > 0 && config.MergeSpec(effective.TypedSpec(), over.Patch) != nil {
		*effective.TypedSpec() = vm.TypedSpec().DeepCopy()
	}

	return effective
}
