package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state/owned"

	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// executePatch merges the body into the target's objects: into an override above those that a document declares, into the
// objects themselves otherwise.
func (c *Controller) executePatch(ctx context.Context, r controller.QRuntime, spec *resources.ActionSpec) error {
	objects, err := targets(ctx, r, spec.Target)
	if err != nil {
		return err
	}

	var refused []*store.AdmissionError

	for _, object := range objects {
		if ownerOf(object).Source == resources.OriginFile {
			err = c.override(ctx, r, object, spec)
		} else {
			err = c.change(ctx, r, object, spec)
		}

		if e, ok := errors.AsType[*store.AdmissionError](err); ok {
			refused = append(refused, e)
		} else if err != nil {
			return err
		}
	}

	return first(refused)
}

// change patches an object that no document declares. It stays the declarer's.
func (c *Controller) change(ctx context.Context, r controller.QRuntime, object resource.Resource, spec *resources.ActionSpec) error {
	kind, md := resources.KindOf(object.Metadata()), object.Metadata()

	patched := object.DeepCopy()
	if err := config.MergeObject(patched, spec.Body); err != nil {
		return invalid(objectName(kind.Name, md.ID()), "%s", err)
	}

	origin, rule := rights(spec, object)

	_, err := c.admission.Apply(ctx, r, store.Change{
		Object: patched, Origin: origin, Cause: spec.Cause, Rule: rule, ExpectRevision: resources.RevisionOf(md),
	})

	if e, ok := errors.AsType[*store.AdmissionError](err); ok && e.Reason == resources.ReasonStaleRevision {
		return fmt.Errorf("error patching %s: it changed in between", e.Object) // tried again on what it is now
	}

	return err
}

// override puts a patch above what a document declares. Only VMs have overrides, and only of their specification.
func (c *Controller) override(ctx context.Context, r controller.QRuntime, object resource.Resource, spec *resources.ActionSpec) error {
	kind, md := resources.KindOf(object.Metadata()), object.Metadata()
	name := objectName(kind.Name, md.ID())

	vm, ok := object.(*resources.VMConfig)
	if !ok {
		return &store.AdmissionError{
			Reason: resources.ReasonNotOwned, Object: name, Owner: ownerOf(object),
			Message: fmt.Sprintf("is declared by the file %s: change it there", ownerOf(object).Name),
		}
	}

	patch, err := specPatch(spec.Body)
	if err != nil {
		return invalid(name, "%s", err)
	}

	var (
		faults  error
		changed bool
	)

	err = r.Modify(ctx, resources.NewOverride(md.ID()), func(res resource.Resource) error {
		current := res.Spec().(*resources.OverrideSpec) //nolint:forcetypeassert // made one line above

		next, err := overridden(vm, *current, patch)
		if err != nil {
			faults = err

			return err
		}

		if bytes.Equal(next.Patch, current.Patch) && bytes.Equal(next.Base, current.Base) && next.Revision == current.Revision {
			return nil // executed before
		}

		next.By, next.Cause, next.Since, next.Until = spec.By, spec.Cause, time.Now(), time.Time{}
		*current, changed = next, true

		return nil
	}, owned.WithModifyNoOwner())

	switch {
	case faults != nil:
		return invalid(name, "%s", faults)
	case err != nil:
		return fmt.Errorf("error writing the override of %s: %w", name, err)
	case !changed:
		return nil
	}

	origin := originOf(spec)

	return c.note(store.Entry{
		Class: store.ClassRevision, Source: string(origin.Source), Name: origin.Name, EventID: spec.Cause, Object: name,
		Reason: "overridden", Message: "by a patch of spec." + strings.Join(resources.SortedKeys(patch), ", spec."),
	})
}

// overridden returns the override with a patch on top of the one it has, and the document's values of all patched fields.
func overridden(vm *resources.VMConfig, current resources.OverrideSpec, patch map[string]any) (resources.OverrideSpec, error) {
	combined := map[string]any{}
	if len(current.Patch) > 0 {
		if err := json.Unmarshal(current.Patch, &combined); err != nil {
			return current, fmt.Errorf("error reading the override: %w", err)
		}
	}

	combine(combined, patch)

	encoded, err := json.Marshal(combined)
	if err != nil {
		return current, fmt.Errorf("error writing the override: %w", err)
	}

	effective := vm.TypedSpec().DeepCopy()
	if err := config.MergeSpec(&effective, encoded); err != nil {
		return current, err
	}

	base, err := resources.OverrideBase(vm.TypedSpec(), encoded)
	if err != nil {
		return current, err
	}

	current.Patch, current.Base = encoded, base
	current.Revision = resources.RevisionOf(vm.Metadata())

	return current, nil
}

// combine lays one merge patch (RFC 7396) upon another: applying the result is applying both. Unlike in a value, null stays.
func combine(onto, patch map[string]any) {
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		existing, wasObject := onto[key].(map[string]any)

		if isObject && wasObject {
			combine(existing, inner)
		} else {
			onto[key] = value
		}
	}
}

// specPatch returns the patch of the specification in a patch of a whole object.
func specPatch(body []byte) (map[string]any, error) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, fmt.Errorf("error reading the patch: %w", err)
	}

	for _, key := range resources.SortedKeys(patch) {
		if key != "spec" {
			return nil, fmt.Errorf("%s is declared by a file and can't be overridden: only spec can", key)
		}
	}

	spec := map[string]any{}

	decoder := json.NewDecoder(bytes.NewReader(patch["spec"]))
	decoder.UseNumber()

	if err := decoder.Decode(&spec); err != nil {
		return nil, fmt.Errorf("error reading the patch of spec: %w", err)
	}

	return spec, nil
}
