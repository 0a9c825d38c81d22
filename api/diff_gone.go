package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
	"gateway/store"
)

// gone returns the objects that are declared by files that the request stands for, and that it no longer declares: VMs
// first, then what they stand on, as they would be taken away.
func (d *differ) gone(ctx context.Context) ([]ObjectDiff, error) {
	var gone []ObjectDiff

	if len(d.under) == 0 {
		return nil, nil
	}

	for _, kind := range resources.DeclaredKinds() {
		list, err := d.state.List(ctx, kind.List())
		if err != nil {
			return nil, fmt.Errorf("error listing %s: %w", kind.Plural, err)
		}

		for _, object := range list.Items {
			origin := resources.OriginOf(object.Metadata())
			if origin.Source == resources.OriginFile && !resources.IsLeaving(object.Metadata()) {
				d.count(origin).total++
			}

			name := kind.Name + "/" + object.Metadata().ID()

			if origin.Source != resources.OriginFile || !d.covers(origin.Name) || object.Metadata().Phase() != resource.PhaseRunning ||
				resources.RemovalPending(object.Metadata()) {
				continue
			}

			if _, declared := d.declared[name]; declared {
				continue
			}

			diff, err := d.deletion(ctx, kind, object, origin)
			if err != nil {
				return nil, err
			}

			gone = append(gone, diff)
			d.count(origin).gone++
		}
	}

	slices.SortStableFunc(gone, func(a, b ObjectDiff) int {
		if (a.Kind == "VM") != (b.Kind == "VM") {
			return map[bool]int{true: -1, false: 1}[a.Kind == "VM"]
		}

		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})

	return gone, nil
}

// rootCounts are how many objects the files of a documents directory would have declared, and how many of these they would not any more.
type rootCounts struct{ total, gone int }

// count returns the counts of the directory of an origin.
func (d *differ) count(origin resources.Origin) *rootCounts {
	if d.counts[origin.Root] == nil {
		d.counts[origin.Root] = &rootCounts{}
	}

	return d.counts[origin.Root]
}

// noteMassDeletions says of which directories nothing would be deleted before somebody confirms it.
func (d *differ) noteMassDeletions() {
	for _, root := range resources.SortedKeys(d.counts) {
		if c := d.counts[root]; root != "" && d.Deletions.IsMass(c.gone, c.total) {
			d.notes = append(d.notes, fmt.Sprintf("%s: %s: %d of %d objects would be deleted: none is before `gateway confirm %s`",
				root, resources.ReasonMassDeletion, c.gone, c.total, root))
		}
	}
}

// deletion is what the end of an object would do.
func (d *differ) deletion(ctx context.Context, kind *resources.Kind, object resource.Resource, origin resources.Origin) (ObjectDiff, error) {
	diff := ObjectDiff{Kind: kind.Name, Name: object.Metadata().ID(), Action: DiffDelete, File: origin.Name}

	err := d.Admission.Delete(ctx, d.writer, store.Removal{Kind: kind, Name: diff.Name, Origin: origin, DryRun: true})
	if refused, ok := errors.AsType[*store.AdmissionError](err); ok {
		diff.Action, diff.Reason, diff.Message = DiffRefused, refused.Reason, refused.Message

		return diff, nil
	}

	if err != nil {
		return diff, err
	}

	vm, ok := object.(*resources.VMConfig)
	if !ok {
		diff.Steps = []string{"stays until no VM uses it"}

		if kind.Name != "Network" && kind.Name != "Host" && kind.Name != "Image" {
			diff.Steps = nil
		}

		return diff, nil
	}

	status, err := d.vmStatus(ctx, diff.Name)
	if err != nil {
		return diff, err
	}

	diff.Host, diff.State = status.Host, status.State
	diff.Steps = endOf(vm, status)

	return diff, nil
}

// vmStatus reads what was observed of a VM: the zero value where nothing was yet.
func (o *Operations) vmStatus(ctx context.Context, name string) (*resources.VMStatusSpec, error) {
	status, err := specOf[resources.VMStatusSpec](ctx, o.state, "VMStatus", name)
	if err != nil || status == nil {
		return &resources.VMStatusSpec{}, err
	}

	return status, nil
}

// endOf says what the deletion of a VM does, in order, and what it leaves.
func endOf(vm *resources.VMConfig, status *resources.VMStatusSpec) (steps []string) {
	spec := vm.TypedSpec()

	if status.State == resources.StateRunning {
		steps = append(steps, fmt.Sprintf("shuts the guest down, and forces it off after %s", spec.Shutdown.Grace))
	}

	if status.DomainUUID != "" {
		steps = append(steps, "undefines its domain, with NVRAM, saved state and snapshots")
	}

	for _, name := range status.DisksMade {
		verb := "keeps"
		if removed(spec, name) {
			verb = "removes"
		}

		steps = append(steps, fmt.Sprintf("%s the volume of disk %s", verb, name))
	}

	return steps
}
