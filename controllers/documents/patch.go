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
	"gateway/controllers/chain"
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

// override puts a patch above what a document declares. Only VMs have overrides, and only of their labels and specification.
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

	patch, err := overridable(spec.Body)
	if err != nil {
		return invalid(name, "%s", err)
	}

	current, err := chain.Get[*resources.Override](ctx, r, resources.NewOverride(md.ID()).Metadata())
	if err != nil {
		return err
	}

	if current == nil {
		current = resources.NewOverride(md.ID())
	}

	next, err := c.overridden(ctx, r, vm, *current.TypedSpec(), patch)
	if err != nil {
		return err
	}

	next.By, next.Cause, next.Since = spec.By, spec.Cause, time.Now()

	changed, err := replaceOverride(ctx, r, current, next)
	if err != nil || !changed {
		return err
	}

	origin := originOf(spec)

	return c.note(store.Entry{
		Class: store.ClassRevision, Source: string(origin.Source), Name: origin.Name, EventID: spec.Cause, Object: name,
		Reason: "overridden", Message: "by a patch of " + strings.Join(patch.fields(), ", "),
	})
}

// replaceOverride writes what an override becomes, and reports whether that is another than it was: an action may be
// executed twice.
func replaceOverride(ctx context.Context, r controller.QRuntime, was *resources.Override, next resources.OverrideSpec) (changed bool, err error) {
	err = r.Modify(ctx, resources.NewOverride(was.Metadata().ID()), func(res resource.Resource) error {
		spec := res.Spec().(*resources.OverrideSpec) //nolint:forcetypeassert // made one line above
		if !res.Metadata().Version().Equal(was.Metadata().Version()) || !spec.Since.Equal(was.TypedSpec().Since) {
			return errOverrideMoved
		}

		if bytes.Equal(next.Patch, spec.Patch) && bytes.Equal(next.Base, spec.Base) && next.Revision == spec.Revision &&
			bytes.Equal(next.Labels, spec.Labels) && bytes.Equal(next.LabelsBase, spec.LabelsBase) {
			return nil
		}

		*spec, changed = next, true

		return nil
	}, owned.WithModifyNoOwner())
	if err != nil {
		return false, fmt.Errorf("error writing the override of VM/%s: %w", was.Metadata().ID(), err)
	}

	return changed, nil
}

// errOverrideMoved reports that the override is no longer what the patch was checked with; the action is tried again.
var errOverrideMoved = errors.New("it changed in between")

// overridden returns the override with a patch on top of the one it has, and the document's values of all patched fields. The
// VM that comes of it is held by everything that holds a document: values, policy, and what can't be changed.
func (c *Controller) overridden(ctx context.Context, r controller.QRuntime, vm *resources.VMConfig, current resources.OverrideSpec, patch override) (resources.OverrideSpec, error) {
	name := objectName("VM", vm.Metadata().ID())

	// What has ended is not brought back by a patch of something else.
	current, err := current.Rest(vm, time.Now())
	if err != nil {
		return current, invalid(name, "%s", err)
	}

	if current.Patch, err = onTop(current.Patch, patch.spec); err != nil {
		return current, invalid(name, "%s", err)
	}

	if current.Labels, err = onTop(current.Labels, patch.labels); err != nil {
		return current, invalid(name, "%s", err)
	}

	if err := c.permit(ctx, r, vm, &current); err != nil {
		return current, err
	}

	if current.Base, err = resources.OverrideBase(vm.TypedSpec(), current.Patch); err != nil {
		return current, invalid(name, "%s", err)
	}

	if current.LabelsBase, err = resources.OverrideLabelsBase(vm.Metadata().Labels().Raw(), current.Labels); err != nil {
		return current, invalid(name, "%s", err)
	}

	current.Revision = resources.RevisionOf(vm.Metadata())

	if _, power := patch.spec["power"]; power {
		current.Until = time.Time{}
	}

	return current, nil
}

// permit checks the VM that comes of an override as if its declarer declared it so.
func (c *Controller) permit(ctx context.Context, r controller.QRuntime, vm *resources.VMConfig, over *resources.OverrideSpec) error {
	effective := vm.DeepCopy().(*resources.VMConfig) //nolint:forcetypeassert // a copy has its original's type
	resources.SetLabels(effective.Metadata(), over.LabelsOver(vm.Metadata().Labels().Raw()))

	if len(over.Patch) > 0 {
		if err := config.MergeSpec(effective.TypedSpec(), over.Patch); err != nil {
			return invalid(objectName("VM", vm.Metadata().ID()), "%s", err)
		}
	}

	_, err := c.admission.Apply(ctx, r, store.Change{Object: effective, Origin: ownerOf(vm), DryRun: true})

	return err
}

// onTop lays a merge patch upon another that is there already, or not.
func onTop(onto resources.JSON, patch map[string]any) (resources.JSON, error) {
	if len(patch) == 0 {
		return onto, nil
	}

	combined := map[string]any{}

	if len(onto) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(onto))
		decoder.UseNumber()

		if err := decoder.Decode(&combined); err != nil {
			return nil, fmt.Errorf("error reading the override: %w", err)
		}
	}

	combine(combined, patch)

	encoded, err := json.Marshal(combined)
	if err != nil {
		return nil, fmt.Errorf("error writing the override: %w", err)
	}

	return encoded, nil
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

// override is a patch of what can be overridden.
type override struct {
	spec   map[string]any
	labels map[string]any
}

// fields names what the patch is about: metadata.labels.tag, spec.cpus.
func (o override) fields() (names []string) {
	for _, label := range resources.SortedKeys(o.labels) {
		names = append(names, "metadata.labels."+label)
	}

	for _, field := range resources.SortedKeys(o.spec) {
		names = append(names, "spec."+field)
	}

	return names
}

// overridable returns the parts of a patch of a whole object. One of anything else is an error: only its file declares it.
func overridable(body []byte) (o override, err error) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(body, &patch); err != nil {
		return o, fmt.Errorf("error reading the patch: %w", err)
	}

	for _, key := range resources.SortedKeys(patch) {
		if key != "metadata" && key != "spec" {
			return o, notOverridable(key)
		}
	}

	if o.spec, err = mapping(patch["spec"], "spec"); err != nil {
		return o, err
	}

	metadata, err := mapping(patch["metadata"], "metadata")
	if err != nil {
		return o, err
	}

	for _, key := range resources.SortedKeys(metadata) {
		if key != "labels" {
			return o, notOverridable("metadata." + key)
		}
	}

	labels, given := metadata["labels"]
	if o.labels, _ = labels.(map[string]any); given && o.labels == nil {
		return o, fmt.Errorf("metadata.labels: a mapping is required")
	}

	for _, label := range resources.SortedKeys(o.labels) {
		if _, text := o.labels[label].(string); !text && o.labels[label] != nil {
			return o, fmt.Errorf("metadata.labels.%s: a text is required", label)
		}
	}

	return o, nil
}

func notOverridable(key string) error {
	return fmt.Errorf("%s is declared by a file and can't be overridden: only metadata.labels and spec can", key)
}

// mapping decodes a member of a patch that may be left out.
func mapping(text json.RawMessage, name string) (members map[string]any, err error) {
	if len(text) == 0 {
		return nil, nil
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()

	if err := decoder.Decode(&members); err != nil || members == nil {
		return nil, fmt.Errorf("%s: a mapping is required", name)
	}

	return members, nil
}
