package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/internal/overrides"
	"gateway/resources"
	"gateway/resources/expression"
)

const (
	// maxObjects is how many objects an event may name for an expression that looks at them. Looking at each once costs a tenth
	// of what an expression may; a thousand of them take about 30 ms to read.
	maxObjects = 1_000
	// appliedAgain is how often a trigger looks whether the documents that its event carries have been applied.
	appliedAgain = 200 * time.Millisecond
	// appliedWithin is how long it waits: as long as documents itself tries.
	appliedWithin = 11 * time.Minute
)

// objectInputs are what `objects` is read from. As DestroyReady inputs their changes do not wake the controller: a trigger
// looks at events, not at objects.
func objectInputs() (inputs []controller.Input) {
	kinds := resources.DeclaredKinds()

	for _, name := range []string{"Override", "ApplyResult"} {
		kind, _ := resources.KindByName(name)
		kinds = append(kinds, kind)
	}

	for _, kind := range resources.DeclaredKinds() {
		if status, ok := resources.KindByName(kind.Status); ok {
			kinds = append(kinds, status)
		}
	}

	for _, kind := range kinds {
		if kind.Type != resources.TriggerType { // it is an input already
			inputs = append(inputs, controller.Input{Namespace: kind.Namespace, Type: kind.Type, Kind: controller.InputQMappedDestroyReady})
		}
	}

	return inputs
}

// named is an object that an event names.
type named struct{ kind, name string }

// gather reads the objects that the event names, once. ready is false while the documents that it carries are being applied:
// nobody knows yet which objects they are.
func (o *observation) gather(ctx context.Context, r controller.UncachedReader) (ready bool, err error) {
	if o.gathered {
		return true, nil
	}

	names, ready, err := o.carried(ctx, r)
	if err != nil || !ready {
		return false, err
	}

	targets, err := o.targets(ctx, r)
	if err != nil {
		return false, err
	}

	names = distinct(append(names, targets...))
	o.gathered = true

	if len(names) > maxObjects {
		o.refusal = fmt.Sprintf("the event names %d objects, an expression may look at %d", len(names), maxObjects)

		return true, nil
	}

	for _, n := range names {
		object, err := read(ctx, r, n)
		if err != nil {
			return false, err
		}

		if object != nil {
			o.input.Objects = append(o.input.Objects, *object)
		}
	}

	return true, nil
}

// carried returns the objects of the documents that the event carries: of a file, or of a delivery that is applied.
func (o *observation) carried(ctx context.Context, r controller.UncachedReader) (names []named, ready bool, err error) {
	var rule *resources.ApplyRule

	switch event := o.event.(type) {
	case *resources.WebhookEvent:
		rule = event.TypedSpec().Apply
	case *resources.MessageEvent:
		rule = event.TypedSpec().Apply
	}

	_, file := o.event.(*resources.FileEvent)
	if rule == nil && !file {
		return nil, true, nil
	}

	result, err := chain.Get[*resources.ApplyResult](ctx, r, resources.NewApplyResult(o.event.Metadata().ID()).Metadata())
	if err != nil {
		return nil, false, err
	}

	if !o.applied(result) {
		if o.waited < appliedWithin {
			return nil, false, nil
		}

		o.gathered, o.refusal = true, "its documents have not been applied, so that nobody knows which objects they are"

		return nil, true, nil
	}

	for _, object := range result.TypedSpec().Objects {
		names = append(names, named{object.Kind, object.Name})
	}

	return names, true, nil
}

// applied reports whether a result is that of this event.
func (o *observation) applied(result *resources.ApplyResult) bool {
	if result == nil {
		return false
	}

	if file, ok := o.event.(*resources.FileEvent); ok {
		return result.TypedSpec().Sequence == file.TypedSpec().Event.Sequence && result.TypedSpec().Digest == file.TypedSpec().Digest
	}

	return !o.event.Metadata().Finalizers().Has(resources.FinalizerDocuments)
}

// targets returns the objects that the event's target means, and the VM that a domain's event is about.
func (o *observation) targets(ctx context.Context, r controller.UncachedReader) ([]named, error) {
	if domain, ok := o.event.(*resources.DomainEvent); ok && domain.TypedSpec().VM != "" {
		return []named{{"VM", domain.TypedSpec().VM}}, nil
	}

	target := o.attributes.Target
	if target == nil {
		return nil, nil
	}

	if target.Name != "" {
		return []named{{target.Kind, target.Name}}, nil
	}

	kind, ok := resources.KindByName(target.Kind)
	if !ok {
		return nil, nil
	}

	meant, err := overrides.Targeted(ctx, r.ListUncached, kind, target)
	if err != nil {
		return nil, err
	}

	names := make([]named, 0, len(meant))
	for _, object := range meant {
		names = append(names, named{kind.Name, object.Metadata().ID()})
	}

	return names, nil
}

// distinct takes out those that are named twice; the first stays.
func distinct(names []named) (out []named) {
	seen := make(map[named]bool, len(names))

	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}

	return out
}

// read returns an object as `gateway get -o json` shows it; nil where there is none.
func read(ctx context.Context, r controller.UncachedReader, n named) (*expression.Object, error) {
	kind, ok := resources.KindByName(n.kind)
	if !ok || kind.Nature != resources.Declared {
		return nil, nil
	}

	declared, err := chain.Get[resource.Resource](ctx, r, kind.Pointer(n.name))
	if err != nil || declared == nil {
		return nil, err
	}

	var observed resource.Resource

	if status, ok := resources.KindByName(kind.Status); ok {
		if observed, err = chain.Get[resource.Resource](ctx, r, status.Pointer(n.name)); err != nil {
			return nil, err
		}
	}

	shown := config.NewObject(declared, observed)

	if kind.Name == "VM" {
		over, err := chain.Get[*resources.Override](ctx, r, resources.NewOverride(n.name).Metadata())
		if err != nil {
			return nil, err
		}

		if chain.Running(over) {
			shown.Metadata.Labels = over.TypedSpec().LabelsOver(shown.Metadata.Labels)
		}
	}

	text, err := shown.JSON()
	if err != nil {
		return nil, err
	}

	object, err := expression.ParseObject(text)

	return &object, err
}
