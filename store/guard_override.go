package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/config"
	"gateway/resources"
)

// checkOverride checks the VM that comes of an override that a client writes: it is held by values, policy and what can't be
// changed as the document below it is. Other commands pass, and an override of no VM: nothing comes of it, and retention takes
// it away.
func (g *guard) checkOverride(ctx context.Context, r resource.Resource) error {
	override, ok := r.(*resources.Override)
	if !ok || override.TypedSpec().IsEmpty() {
		return nil
	}

	md := override.Metadata()

	current, err := g.CoreState.Get(ctx, resources.NewVMConfig(md.ID()).Metadata())
	if state.IsNotFoundError(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("error reading VM/%s: %w", md.ID(), err)
	}

	vm, ok := current.(*resources.VMConfig)
	if !ok {
		return fmt.Errorf("VM/%s has the Go type %T", md.ID(), current)
	}

	kind, over := resources.KindOf(md), override.TypedSpec()
	effective := vm.DeepCopy().(*resources.VMConfig) //nolint:forcetypeassert // a copy has its original's type

	if len(over.Patch) > 0 {
		if err := config.MergeSpec(effective.TypedSpec(), over.Patch); err != nil {
			return refuse(resources.ReasonInvalid, md, kind, "patch: %s", err)
		}
	}

	if len(over.Labels) > 0 {
		var labels map[string]*string
		if err := json.Unmarshal(over.Labels, &labels); err != nil {
			return refuse(resources.ReasonInvalid, md, kind, "labels: a JSON object of texts, and null for those that go, is needed")
		}

		resources.SetLabels(effective.Metadata(), over.LabelsOver(vm.Metadata().Labels().Raw()))
	}

	if _, err := g.admission.admit(&Change{Object: effective, Origin: ownerOf(vm.Metadata())}); err != nil {
		return err
	}

	if errs := immutable(vm.Spec(), effective.Spec()); len(errs) > 0 {
		return refuse(resources.ReasonImmutable, md, kind, "%s", errs)
	}

	return nil
}
