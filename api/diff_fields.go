package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// fieldsOf returns the fields in which a declaration differs from the one that is in force, or, where there is none, from
// the defaults. Secrets are redacted, as everywhere.
func fieldsOf(current, desired resource.Resource) ([]FieldDiff, error) {
	if current == nil {
		current = resources.KindOf(desired.Metadata()).New(desired.Metadata().ID())
	}

	from, err := fieldMap(current)
	if err != nil {
		return nil, err
	}

	to, err := fieldMap(desired)
	if err != nil {
		return nil, err
	}

	var fields []FieldDiff

	for _, path := range pathsOf(from, to) {
		if !reflect.DeepEqual(from[path], to[path]) {
			fields = append(fields, FieldDiff{Path: path, From: from[path], To: to[path], Effect: EffectLive})
		}
	}

	return fields, nil
}

// fieldMap returns labels and specification of an object, flat: each value that is no object or list by its path.
func fieldMap(r resource.Resource) (map[string]any, error) {
	object := config.NewObject(r, nil)

	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": object.Metadata.Labels}, "spec": object.Spec})
	if err != nil {
		return nil, fmt.Errorf("error encoding %s/%s: %w", object.Kind, object.Metadata.Name, err)
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // sizes are larger than what a float holds

	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("error reading %s/%s: %w", object.Kind, object.Metadata.Name, err)
	}

	flat := map[string]any{}
	flatten("", tree, flat)

	return flat, nil
}

func flatten(path string, value any, into map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), child, into)
		}
	case []any:
		for i, child := range v {
			flatten(fmt.Sprintf("%s[%s]", path, elementName(child, i)), child, into)
		}
	case nil:
	default:
		into[path] = v
	}
}

// elementName is what an element of a list is known by: its name where it has one, so that one that goes does not make all
// others look changed.
func elementName(element any, index int) string {
	if object, ok := element.(map[string]any); ok {
		if name, ok := object["name"].(string); ok {
			return name
		}
	}

	return strconv.Itoa(index)
}

// pathsOf returns the paths of both, sorted, without what only names an element of a list: its other fields tell.
func pathsOf(a, b map[string]any) []string {
	var paths []string

	for _, m := range []map[string]any{a, b} {
		for path := range m {
			if !slices.Contains(paths, path) && !strings.HasSuffix(path, "].name") {
				paths = append(paths, path)
			}
		}
	}

	slices.Sort(paths)

	return paths
}

// markRefused marks the fields that are why an object is refused.
func markRefused(fields []FieldDiff, refused *store.AdmissionError, desired resource.Resource) {
	for _, f := range refused.Fields {
		path := named(f.Path, desired)

		for i := range fields {
			if fields[i].Path == path || strings.HasPrefix(fields[i].Path, path+".") {
				fields[i].Effect, fields[i].Why = EffectRefused, f.Message
			}
		}
	}
}

// named is a path of the admission layer, which counts the elements of lists, with the names of disks.
func named(path string, desired resource.Resource) string {
	vm, ok := desired.(*resources.VMConfig)
	if !ok {
		return path
	}

	for i, disk := range vm.TypedSpec().Disks {
		if rest, found := strings.CutPrefix(path, fmt.Sprintf("spec.disks[%d]", i)); found {
			return fmt.Sprintf("spec.disks[%s]%s", disk.Name, rest)
		}
	}

	return path
}
