package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// mark is where a value stands in the text.
type mark struct{ line, column int }

// decoder fills Go values from nodes, strictly: what does not fit is a fault at its position. It goes by the `json`,
// `enum` and `default` tags of the specifications, so that a new field needs no line here.
type decoder struct {
	file string
	errs Errors
	// marks remembers where each value stands, by its path as in FieldError.
	marks map[string]mark
	// faulty holds the paths that have a fault, so that what follows from it is not reported as well.
	faulty map[string]bool
	// emptyIsAbsent accepts `key:` without a value. In documents it is refused, because a file that was cut off looks so.
	emptyIsAbsent bool
	// open is the line in which the text may have been cut off; 0: none.
	open int
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, marks: map[string]mark{}, faulty: map[string]bool{}}
}

// full reports whether there are more faults than are shown: what follows only costs time, which a sender could make us
// spend.
func (d *decoder) full() bool { return len(d.errs) > maxErrors }

// fail notes a fault of the value at path.
func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	if d.full() {
		return
	}

	d.faulty[path] = true
	d.errs = append(d.errs, Error{File: d.file, Line: n.Line, Column: n.Column, Message: prefixed(path, fmt.Sprintf(format, args...))})
}

// prefixed puts the path before the message, where there is one.
func prefixed(path, message string) string {
	if path == "" {
		return message
	}

	return path + ": " + message
}

// mismatch notes that a value has the wrong type, and what may be done about it.
func (d *decoder) mismatch(n *yaml.Node, path, want string) {
	got, hint := describe(n), ""

	switch {
	case n.Kind == yaml.ScalarNode && got == "null":
		d.fail(n, path, "a value is missing: a %s is needed", want)

		return
	case n.Kind == yaml.ScalarNode && want == "string":
		hint = ": put it in quotes"
	case got == "string" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && (want == "boolean" || strings.Contains(want, "number")):
		hint = ": leave out the quotes"
	}

	shown := ""
	if n.Kind == yaml.ScalarNode {
		shown = fmt.Sprintf(" %.40q", n.Value)
	}

	d.fail(n, path, "a %s is needed, not the %s%s%s", want, got, shown, hint)
}

// value decodes a node into v, which is settable and has its defaults.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if _, ok := d.marks[path]; !ok {
		d.marks[path] = mark{n.Line, n.Column}
	}

	if tag := n.Tag; n.Style&yaml.TaggedStyle != 0 && !knownTag(tag) {
		d.fail(n, path, "the tag %s is not supported", tag)

		return
	}

	switch target := v.Addr().Interface().(type) {
	case *resources.JSON:
		d.json(n, target, path)

		return
	case *resources.Selector:
		d.selector(n, target, path)

		return
	case *resources.Deliver:
		d.deliver(n, target, path)

		return
	case encoding.TextUnmarshaler:
		d.text(n, target, path)

		return
	}

	switch v.Kind() { //nolint:exhaustive // specifications have no other kinds; a test decodes every one
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		resources.SetDefaults(fresh.Interface())
		d.value(n, fresh.Elem(), path)
		v.Set(fresh)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.slice(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// knownTag reports whether a tag written in the text is one of YAML's core schema.
func knownTag(tag string) bool {
	switch tag {
	case tagNull, tagBool, tagInt, tagFloat, tagString, "!!seq", "!!map", "!":
		return true
	}

	return false
}

// structure decodes a mapping into the fields of a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, path, "mapping")

		return
	}

	fields := fieldsOf(v.Type())

	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]

		index, ok := fields.indices[key.Value]
		if !ok {
			d.unknown(key, path, fields.names)

			continue
		}

		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}

		if d.absent(key, value, at) {
			continue
		}

		if value.Kind != yaml.ScalarNode {
			d.marks[at] = mark{key.Line, key.Column}
		}

		d.value(value, v.Field(index), at)
		d.enum(value, v.Type().Field(index), v.Field(index), at)
	}
}

// absent reports whether the value is null, which means that the field is left out. Null that nobody wrote is a fault: it
// is what remains of a value when a file is cut off.
func (d *decoder) absent(key, value *yaml.Node, path string) bool {
	if scalarTag(value) != tagNull || value.Style&yaml.TaggedStyle != 0 {
		return false
	}

	if value.Value == "" && !d.emptyIsAbsent {
		d.fail(key, path, "a value is missing: write one, or leave the field out")
	}

	return true
}

// fieldName is what names of fields look like, ours and those that people mistake for them.
var fieldName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_.$/-]{0,63}$`)

// quotedField is the name of an unknown field where it could be one. Anything else is not repeated: a link in a documents
// directory may lead to any file of the machine, as one of passwords, and errors are published.
func quotedField(name string) string {
	if !fieldName.MatchString(name) {
		return "(no name of a field)"
	}

	return strconv.Quote(name)
}

// unknown notes a field that does not exist, with the nearest that does.
func (d *decoder) unknown(key *yaml.Node, path string, names []string) {
	if d.full() {
		return
	}

	hint := ""
	if near := nearest(key.Value, names); near != "" {
		hint = fmt.Sprintf(": did you mean %q?", near)
	} else if len(names) > 0 {
		hint = ": known are " + strings.Join(names, ", ")
	}

	where := ""
	if path != "" {
		where = " in " + path
	}

	d.errs = append(d.errs, Error{File: d.file, Line: key.Line, Column: key.Column, Message: "unknown field " + quotedField(key.Value) + where + hint})
}

// enum checks the value of a field that has an `enum` tag.
func (d *decoder) enum(n *yaml.Node, field reflect.StructField, v reflect.Value, path string) {
	values := resources.EnumOf(field)
	if len(values) == 0 || v.Kind() != reflect.String || d.faulty[path] {
		return
	}

	for _, allowed := range values {
		if v.String() == allowed {
			return
		}
	}

	hint := ""
	if near := nearest(v.String(), values); near != "" {
		hint = fmt.Sprintf(": did you mean %q?", near)
	}

	d.fail(n, path, "%.64q is not one of %s%s", v.String(), strings.Join(values, ", "), hint)
}

// slice decodes a list. What the slice had as a default is replaced.
func (d *decoder) slice(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.mismatch(n, path, "list")

		return
	}

	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))

	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)

		if scalarTag(child) == tagNull {
			d.fail(child, at, "a value is missing in the list")

			continue
		}

		resources.SetDefaults(out.Index(i).Addr().Interface())
		d.value(child, out.Index(i), at)
	}

	v.Set(out)
}

// mapping decodes a map with text as keys.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, path, "mapping")

		return
	}

	out := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)

	for i := 0; i < len(n.Content); i += 2 {
		key, child := n.Content[i], n.Content[i+1]
		at := path + "." + key.Value
		element := reflect.New(v.Type().Elem()).Elem()

		d.value(child, element, at)
		out.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), element)
	}

	v.Set(out)
}

// structFields are the fields of a struct as documents name them.
type structFields struct {
	indices map[string]int
	// names are in the order of the fields.
	names []string
}

// knownStructs holds the structFields of each type that was decoded; types are few and never change.
var knownStructs sync.Map

func fieldsOf(t reflect.Type) structFields {
	if known, ok := knownStructs.Load(t); ok {
		return known.(structFields) //nolint:forcetypeassert // nothing else is stored
	}

	fields := structFields{indices: make(map[string]int, t.NumField())}

	for i := range t.NumField() {
		if name := resources.FieldName(t.Field(i)); name != "" {
			fields.indices[name] = i
			fields.names = append(fields.names, name)
		}
	}

	knownStructs.Store(t, fields)

	return fields
}
