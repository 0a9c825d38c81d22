package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// Description is everything about one object.
type Description struct {
	Object config.Object `json:"object"`
	// Placement and Networks are where a VM is, and what its interfaces have.
	Placement *resources.VMPlacementSpec   `json:"placement,omitempty"`
	Networks  *resources.NetworkConfigSpec `json:"networks,omitempty"`
	Override  *resources.OverrideSpec      `json:"override,omitempty"`
	Hold      *resources.HoldSpec          `json:"hold,omitempty"`
	// Finalizers and Deleting say who has yet to let go of an object that is torn down.
	Finalizers []string `json:"finalizers,omitempty"`
	Deleting   bool     `json:"deleting,omitempty"`
	// UsedBy are the VMs that an object which is being taken away waits for.
	UsedBy []string `json:"usedBy,omitempty"`
	// Drain is what a drain of the host would do with its VMs.
	Drain []DrainedVM `json:"drain,omitempty"`
	// Conflicts are other declarations of the same object.
	Conflicts []string `json:"conflicts,omitempty"`
	// Events are the newest journal entries about it.
	Events []store.Entry `json:"events,omitempty"`
}

// DrainedVM is what a drain does with one VM.
type DrainedVM struct {
	VM string `json:"vm"`
	// To is where it goes; empty: it stays, and Obstacle says why.
	To       string `json:"to,omitempty"`
	Obstacle string `json:"obstacle,omitempty"`
}

// describedEvents is how many journal entries a description has.
const describedEvents = 20

func (o *operations) describe(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r.PathValue("kind"))
	if err != nil {
		return err
	}

	ctx, name := r.Context(), r.PathValue("name")

	var d Description
	if d.Object, err = o.one(ctx, kind, name); err != nil {
		return err
	}

	declared, err := o.state.Get(ctx, kind.Pointer(name))
	if state.IsNotFoundError(err) {
		return fmt.Errorf("%s %q: %w", kind.Name, name, errNotFound)
	}

	if err != nil {
		return fmt.Errorf("error reading %s %q: %w", kind.Name, name, err)
	}

	d.Finalizers = *declared.Metadata().Finalizers()
	d.Deleting = resources.IsLeaving(declared.Metadata())

	if err := o.beside(ctx, kind, name, &d); err != nil {
		return err
	}

	if d.Deleting {
		if d.UsedBy, err = o.usedBy(ctx, kind, name); err != nil {
			return err
		}
	}

	if kind.Name == "Host" && o.DrainCheck != nil {
		if d.Drain, err = o.DrainCheck(ctx, name); err != nil {
			return err
		}
	}

	if d.Conflicts, err = o.conflicts(ctx, kind.Name, name); err != nil {
		return err
	}

	d.Events, err = o.Store.Journal().Query(ctx, store.Query{Object: kind.Name + "/" + name, Limit: describedEvents})
	if err != nil {
		return fmt.Errorf("error reading the journal: %w", err)
	}

	writeJSON(w, http.StatusOK, d)

	return nil
}

// beside reads what stands beside an object under its name.
func (o *operations) beside(ctx context.Context, kind *resources.Kind, name string, d *Description) (err error) {
	d.Hold, err = specOf[resources.HoldSpec](ctx, o.state, "Hold", resources.HoldID(kind.Name, name))
	if err != nil || kind.Name != "VM" {
		return err
	}

	if d.Placement, err = specOf[resources.VMPlacementSpec](ctx, o.state, "VMPlacement", name); err != nil {
		return err
	}

	if d.Networks, err = specOf[resources.NetworkConfigSpec](ctx, o.state, "NetworkConfig", name); err != nil {
		return err
	}

	over, err := specOf[resources.OverrideSpec](ctx, o.state, "Override", name)
	if over != nil {
		d.Override, _ = config.Redact(over).(*resources.OverrideSpec)
	}

	return err
}

// specOf returns the specification of a resource, nil where there is none.
func specOf[S any](ctx context.Context, st state.State, kindName, id string) (*S, error) {
	kind, ok := resources.KindByName(kindName)
	if !ok {
		return nil, fmt.Errorf("error reading %s %q: no such kind", kindName, id)
	}

	r, err := st.Get(ctx, kind.Pointer(id))
	if state.IsNotFoundError(err) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("error reading %s %q: %w", kindName, id, err)
	}

	spec, _ := r.Spec().(*S)

	return spec, nil
}

// conflicts returns the origins whose declaration of the object waits, because another has it.
func (o *Operations) conflicts(ctx context.Context, kindName, name string) ([]string, error) {
	kind := resources.KindOf(resources.NewApplyResult("").Metadata())

	results, err := o.state.List(ctx, kind.List())
	if err != nil {
		return nil, fmt.Errorf("error listing apply results: %w", err)
	}

	var origins []string

	for _, r := range results.Items {
		spec, ok := r.Spec().(*resources.ApplyResultSpec)
		if !ok {
			continue
		}

		for _, object := range spec.Objects {
			if object.Kind == kindName && object.Name == name && object.Outcome == resources.OutcomeConflict {
				origins = append(origins, spec.Origin+": "+object.Message)
			}
		}
	}

	return origins, nil
}
