package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/cosi-project/runtime/pkg/resource"
	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// MergeSpec applies a JSON merge patch (RFC 7396) to a specification, a pointer to a struct. The result is decoded and
// validated as strictly as a document; after an error, which is of type Errors, the specification is as it was. A null
// takes a field back to its default.
func MergeSpec(spec any, patch []byte) error {
	change, err := parsePatch(patch)
	if err != nil {
		return err
	}

	merged, errs := mergeSpec(spec, change)
	if err := unplaced(errs).err(); err != nil {
		return err
	}

	reflect.ValueOf(spec).Elem().Set(merged.Elem())

	return nil
}

// MergeObject applies a JSON merge patch (RFC 7396) of the form {metadata: {labels, annotations}, spec} to a declared
// object, and validates the result. After an error, which is of type Errors, the object is as it was. Nothing else of an
// object can be patched.
func MergeObject(r resource.Resource, patch []byte) error {
	change, err := parsePatch(patch)
	if err != nil {
		return err
	}

	d := newDecoder("")
	result := r.DeepCopy()

	for i := 0; i < len(change.Content); i += 2 {
		switch key, value := change.Content[i], change.Content[i+1]; key.Value {
		case "metadata":
			d.mergeMetadata(result.Metadata(), value)
		case "spec":
			merged, errs := mergeSpec(result.Spec(), value)
			d.errs = append(d.errs, errs...)

			reflect.ValueOf(result.Spec()).Elem().Set(merged.Elem())
		default:
			d.fail(key, key.Value, "only metadata and spec can be patched")
		}
	}

	if len(d.errs) == 0 {
		d.fieldErrors(change, resources.Validate(result))
	}

	if err := unplaced(d.errs).err(); err != nil {
		return err
	}

	resources.SetLabels(r.Metadata(), result.Metadata().Labels().Raw())
	resources.SetUserAnnotations(r.Metadata(), resources.UserAnnotations(result.Metadata()))
	reflect.ValueOf(r.Spec()).Elem().Set(reflect.ValueOf(result.Spec()).Elem())

	return nil
}

// parsePatch reads a patch, which has to be an object: any other patch would replace the whole.
func parsePatch(patch []byte) (*yaml.Node, error) {
	if len(patch) > MaxFileBytes {
		return nil, Errors{{Message: "the patch has more than 4 MiB"}}
	}

	change, ok := parseJSONValue(patch)
	if !ok || change.Kind != yaml.MappingNode {
		return nil, Errors{{Message: fmt.Sprintf("the patch is not a JSON object of at most %d levels", maxDepth)}}
	}

	p := &parser{plain: map[*yaml.Node]bool{}}
	if change = p.expand(change, 1, false); change == nil || len(p.errs) > 0 {
		return nil, unplaced(p.errs)
	}

	return change, nil
}

// mergeSpec returns a pointer to a new specification that is the merged one.
func mergeSpec(spec any, change *yaml.Node) (reflect.Value, Errors) {
	d := newDecoder("")
	merged := reflect.New(reflect.TypeOf(spec).Elem())

	resources.SetDefaults(merged.Interface())

	if change.Kind != yaml.MappingNode {
		d.mismatch(change, "spec", "mapping")

		return merged, d.errs
	}

	d.value(mergeNode(nodeOf(reflect.ValueOf(spec).Elem()), change), merged.Elem(), "spec")
	d.fieldErrors(change, resources.ValidateSpec(merged.Interface()))

	return merged, d.errs
}

// mergeMetadata merges labels and annotations.
func (d *decoder) mergeMetadata(md *resource.Metadata, change *yaml.Node) {
	var parts struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}

	parts.Labels, parts.Annotations = md.Labels().Raw(), resources.UserAnnotations(md)
	now := nodeOf(reflect.ValueOf(parts))
	parts.Labels, parts.Annotations = nil, nil

	before := len(d.errs)
	d.value(mergeNode(now, change), reflect.ValueOf(&parts).Elem(), "metadata")
	d.fieldErrors(change, resources.ValidateAnnotations("metadata.annotations", parts.Annotations))

	if len(d.errs) == before {
		resources.SetLabels(md, parts.Labels)
		resources.SetUserAnnotations(md, parts.Annotations)
	}
}

// unplaced takes the positions away: those in a patch say nothing to its reader, messages name the fields.
func unplaced(errs Errors) Errors {
	for i := range errs {
		errs[i].Line, errs[i].Column = 0, 0
	}

	return errs
}

// mergeNode is the algorithm of RFC 7396, section 2. Its arguments are not changed.
func mergeNode(target, change *yaml.Node) *yaml.Node {
	if change.Kind != yaml.MappingNode {
		return change
	}

	out := &yaml.Node{Kind: yaml.MappingNode}
	at := map[string]int{}

	if target != nil && target.Kind == yaml.MappingNode {
		for i := 0; i < len(target.Content); i += 2 {
			at[target.Content[i].Value] = len(out.Content)
			out.Content = append(out.Content, target.Content[i], target.Content[i+1])
		}
	}

	removed := map[int]bool{}

	for i := 0; i < len(change.Content); i += 2 {
		key, value := change.Content[i], change.Content[i+1]
		place, exists := at[key.Value]

		switch {
		case scalarTag(value) == tagNull:
			if exists {
				removed[place] = true
			}
		case exists:
			out.Content[place+1] = mergeNode(out.Content[place+1], value)
		default:
			out.Content = append(out.Content, key, mergeNode(nil, value))
		}
	}

	kept := out.Content[:0:0]
	for i := 0; i < len(out.Content); i += 2 {
		if !removed[i] {
			kept = append(kept, out.Content[i], out.Content[i+1])
		}
	}

	out.Content = kept

	return out
}

// nodeOf returns a value as the nodes that decode to it; nil for what is not there. Unlike its JSON, which leaves zeros
// out where they read better so, it is complete: a zero that was written survives.
func nodeOf(v reflect.Value) *yaml.Node {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}

	switch value := v.Interface().(type) {
	case resources.Rate:
		// The zero rate has no text: it is one that nobody set.
		if value == (resources.Rate{}) {
			return nil
		}

		return textNode(value.String())
	case json.Marshaler, encoding.TextMarshaler:
		text, err := json.Marshal(value)
		if err != nil {
			// JSON that is none, which no way in lets through: left out, so that validation says what is missing.
			return nil
		}

		n, _ := parseJSONValue(text)

		return n
	}

	switch v.Kind() { //nolint:exhaustive // specifications have no other kinds
	case reflect.Pointer:
		return nodeOf(v.Elem())
	case reflect.Struct, reflect.Map, reflect.Slice:
		return containerNode(v)
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}

		return textNode(v.String())
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(v.Bool())}
	case reflect.Float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(v.Float(), 'g', -1, 64)}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
	}
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text, Style: yaml.DoubleQuotedStyle}
}

// containerNode is nodeOf for structs, maps and slices.
func containerNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}

	add := func(key string, value *yaml.Node) {
		if value != nil {
			n.Content = append(n.Content, textNode(key), value)
		}
	}

	switch v.Kind() { //nolint:exhaustive // the caller knows
	case reflect.Struct:
		for i := range v.NumField() {
			if name := resources.FieldName(v.Type().Field(i)); name != "" {
				add(name, nodeOf(v.Field(i)))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			return nil
		}

		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			if value.Kind() == reflect.String {
				add(key.String(), textNode(value.String()))
			} else {
				add(key.String(), nodeOf(value))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}

		n.Kind = yaml.SequenceNode

		for i := range v.Len() {
			child := nodeOf(v.Index(i))
			if child == nil {
				child = textNode("")
			}

			n.Content = append(n.Content, child)
		}
	}

	return n
}
