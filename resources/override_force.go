package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
)

// fieldPower is the one field of a specification whose override may end by time.
const fieldPower = "power"

// ended reports whether the override of a field has ended; base is the document's value that it stands on.
type ended func(field string, base any) bool

// never is for what does not end.
func never(string, any) bool { return false }

// InForce returns the override as it is at a time: without the power state whose time is over.
func (s *OverrideSpec) InForce(now time.Time) (OverrideSpec, error) {
	if s.Until.IsZero() || now.Before(s.Until) {
		return *s, nil
	}

	return s.without(func(field string, _ any) bool { return field == fieldPower }, never)
}

// Rest returns what is left of the override above a document at a time: without the power state whose time is over, and
// without each field and label that the document changed since.
func (s *OverrideSpec) Rest(vm *VMConfig, now time.Time) (OverrideSpec, error) {
	rest, err := s.InForce(now)
	if err != nil {
		return rest, err
	}

	base, err := OverrideBase(vm.TypedSpec(), rest.Patch)
	if err != nil {
		return rest, err
	}

	labelsBase, err := OverrideLabelsBase(vm.Metadata().Labels().Raw(), rest.Labels)
	if err != nil {
		return rest, err
	}

	fields, err := changed(rest.Base, base)
	if err != nil {
		return rest, err
	}

	labels, err := changed(rest.LabelsBase, labelsBase)
	if err != nil {
		return rest, err
	}

	return rest.without(fields, labels)
}

// changed says that what has another value in a document than it had has ended. What stands on no document does not end by
// one.
func changed(had, has JSON) (ended, error) {
	if len(had) == 0 {
		return never, nil
	}

	document, err := optionalMembers(has)

	return func(field string, base any) bool { return !reflect.DeepEqual(base, document[field]) }, err
}

// without returns the override without the fields of its patch, and the labels, that have ended.
func (s *OverrideSpec) without(fields, labels ended) (rest OverrideSpec, err error) {
	rest = *s

	if rest.Patch, rest.Base, err = drop(s.Patch, s.Base, fields); err != nil {
		return *s, err
	}

	if rest.Labels, rest.LabelsBase, err = drop(s.Labels, s.LabelsBase, labels); err != nil {
		return *s, err
	}

	patch, err := optionalMembers(rest.Patch)
	if _, timed := patch[fieldPower]; !timed {
		rest.Until = time.Time{}
	}

	return rest, err
}

// drop takes the fields that have ended out of a patch and its base.
func drop(patch, base JSON, has ended) (JSON, JSON, error) {
	values, err := optionalMembers(patch)
	if err != nil {
		return nil, nil, err
	}

	bases, err := optionalMembers(base)
	if err != nil {
		return nil, nil, err
	}

	before := len(values)

	for field := range values {
		if has(field, bases[field]) {
			delete(values, field)
			delete(bases, field)
		}
	}

	switch {
	case len(values) == before:
		return patch, base, nil
	case len(values) == 0:
		return nil, nil, nil
	}

	if patch, err = jsonOf(values); err != nil || len(base) == 0 {
		return patch, base, err
	}

	base, err = jsonOf(bases)

	return patch, base, err
}

// optionalMembers is membersOf for a text that may be empty.
func optionalMembers(text JSON) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil
	}

	members, err := membersOf(text)
	if err != nil {
		return nil, fmt.Errorf("error reading a part of an override: %w", err)
	}

	return members, nil
}

// LabelsOver returns labels with those of the override above them. Neither is changed.
func (s *OverrideSpec) LabelsOver(labels map[string]string) map[string]string {
	if len(s.Labels) == 0 {
		return labels
	}

	var patch map[string]*string
	if json.Unmarshal(s.Labels, &patch) != nil {
		return labels // who wrote it checked it, so that this does not happen
	}

	out := maps.Clone(labels)
	if out == nil {
		out = make(map[string]string, len(patch))
	}

	for name, value := range patch {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = *value
		}
	}

	return out
}

// Labels says which labels of objects count: the declared ones, with those of an override above them. The zero value knows of
// no override.
type Labels struct {
	over map[string]*OverrideSpec
}

// LabelsUnder returns the labels under overrides, which are all there are, by the names of their VMs.
func LabelsUnder(overrides map[string]*Override) (l Labels) {
	for name, o := range overrides {
		if len(o.TypedSpec().Labels) == 0 || o.Metadata().Phase() != resource.PhaseRunning {
			continue
		}

		if l.over == nil {
			l.over = map[string]*OverrideSpec{}
		}

		l.over[name] = o.TypedSpec()
	}

	return l
}

// Of returns the labels of an object that count. They are not to be changed.
func (l Labels) Of(md *resource.Metadata) map[string]string {
	if over := l.over[md.ID()]; over != nil && md.Type() == VMConfigType {
		return over.LabelsOver(md.Labels().Raw())
	}

	return md.Labels().Raw()
}

// Overridden returns the names of the VMs whose labels are overridden, sorted.
func (l Labels) Overridden() []string { return SortedKeys(l.over) }
