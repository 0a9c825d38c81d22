package chain

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/internal/overrides"
	"gateway/resources"
)

// EventInputs are the events whose `target` makes a controller look again, as mapped inputs.
func EventInputs() []controller.Input {
	types := []resource.Type{resources.FileEventType, resources.WebhookEventType, resources.MessageEventType, resources.CronTickType}
	inputs := make([]controller.Input, len(types))

	for i, typ := range types {
		inputs[i] = controller.Input{Namespace: resources.NamespaceEvents, Type: typ, Kind: controller.InputQMapped}
	}

	return inputs
}

// MapEvent returns the VMs that the target of an event names, and the event's id. An event that is gone already names none:
// level-triggered controllers lose only time by that.
func MapEvent(ctx context.Context, r controller.UncachedReader, ptr resource.Pointer) (vms []resource.Pointer, cause string, err error) {
	event, err := Get[resource.Resource](ctx, r, ptr)
	if err != nil || event == nil {
		return nil, "", err
	}

	attributes := resources.AttributesOf(event)
	if attributes == nil {
		return nil, "", nil
	}

	vms, err = TargetVMs(ctx, r, attributes.Target)

	return vms, attributes.ID, err
}

// TargetVMs returns the VMs that a target names.
func TargetVMs(ctx context.Context, r controller.UncachedReader, target *resources.Target) ([]resource.Pointer, error) {
	if target == nil || target.Kind != "VM" {
		return nil, nil
	}

	if target.Name != "" {
		return []resource.Pointer{VM(target.Name)}, nil
	}

	var options []state.ListOption

	// All terms of one query must hold; several queries would be alternatives.
	terms := make([]resource.LabelQueryOption, 0, len(target.Selector.Match))
	for _, key := range resources.SortedKeys(target.Selector.Match) {
		terms = append(terms, resource.LabelEqual(key, target.Selector.Match[key]))
	}

	if len(terms) > 0 {
		options = append(options, state.WithLabelQuery(terms...))
	}

	list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceVMs, resources.VMConfigType, "", resource.VersionUndefined), options...)
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs of target %s: %w", target, err)
	}

	return labelled(ctx, r, target, list.Items)
}

// labelled returns those of the VMs, found by the labels of their documents, that the target names by those that count, and
// the others whose labels are overridden.
func labelled(ctx context.Context, r controller.UncachedReader, target *resources.Target, found []resource.Resource) ([]resource.Pointer, error) {
	labels, err := overrides.Labels(ctx, r.ListUncached)
	if err != nil {
		return nil, err
	}

	vms := make([]resource.Pointer, 0, len(found))
	known := make(map[resource.ID]bool, len(found))

	for _, vm := range found {
		known[vm.Metadata().ID()] = true

		if target.Selector.Matches(labels.Of(vm.Metadata())) {
			vms = append(vms, VM(vm.Metadata().ID()))
		}
	}

	for _, name := range labels.Overridden() {
		if known[name] {
			continue
		}

		vm, err := Get[*resources.VMConfig](ctx, r, VM(name))
		if err != nil {
			return nil, err
		}

		if vm != nil && target.Selector.Matches(labels.Of(vm.Metadata())) {
			vms = append(vms, VM(name))
		}
	}

	return vms, nil
}

// VM returns the pointer to the VMConfig of a name.
func VM(name string) resource.Pointer {
	return resource.NewMetadata(resources.NamespaceVMs, resources.VMConfigType, name, resource.VersionUndefined)
}
