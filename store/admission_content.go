package store

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// setSpec replaces the specification of r by a copy of the one of from, which is of the same kind.
func setSpec(r, from resource.Resource) {
	reflect.ValueOf(r.Spec()).Elem().Set(reflect.ValueOf(from.DeepCopy().Spec()).Elem())
}

// setContent replaces all that a user writes of r by that of from.
func setContent(r, from resource.Resource) {
	setSpec(r, from)
	resources.SetLabels(r.Metadata(), from.Metadata().Labels().Raw())
	resources.SetUserAnnotations(r.Metadata(), resources.UserAnnotations(from.Metadata()))
}

// changed returns current with the content of declared, its revision raised where specification or labels differ; nil where
// nothing differs.
func changed(current, declared resource.Resource) (resource.Resource, error) {
	same, err := equalSpec(current.Spec(), declared.Spec())
	if err != nil {
		return nil, err
	}

	same = same && maps.Equal(current.Metadata().Labels().Raw(), declared.Metadata().Labels().Raw())
	if same && maps.Equal(resources.UserAnnotations(current.Metadata()), resources.UserAnnotations(declared.Metadata())) {
		return nil, nil
	}

	desired := current.DeepCopy()
	setContent(desired, declared)

	if !same {
		resources.SetRevision(desired.Metadata(), resources.RevisionOf(current.Metadata())+1)
	}

	return desired, nil
}

// equalSpec reports whether two specifications say the same to a user. They are compared as JSON and not field by field: an
// empty list of a document comes back from the disk as none, and must not count as a change.
func equalSpec(a, b any) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}

	y, err := json.Marshal(b)
	if err != nil {
		return false, err
	}

	return bytes.Equal(x, y), nil
}
