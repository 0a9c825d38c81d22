package expression

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxResult is the size of what a template may make: that of a file of documents.
const maxResult = 4 << 20

// Template is a JSON value whose strings may hold ${CEL}. It may be evaluated by several goroutines at once.
type Template struct {
	root node
}

// UsesObjects reports whether one of the expressions looks at objects; none of no template does.
func (t *Template) UsesObjects() bool { return t != nil && t.root.UsesObjects() }

// node is a part of a template.
type node interface {
	eval(ctx context.Context, input Input) (any, error)
	UsesObjects() bool
}

type (
	constant struct{ value any }
	object   map[string]node
	array    []node
	// typed is a string that is exactly one ${…}: it becomes the value itself.
	typed struct{ *Program }
	// text is a string with one or several ${…} in it.
	text []node
)

// Interpolate compiles a template from a JSON value. A string that is exactly one ${…} becomes the expression's value with
// its type; other strings are put together as text. What comes out is never parsed again: a value can't add a member. $${
// stands for ${ itself. Names of members are taken as they are. A fault is an *Error with the path to the string.
func Interpolate(value []byte) (*Template, error) {
	decoded, err := decode(value)
	if err != nil {
		return nil, fmt.Errorf("error reading a template: %w", err)
	}

	root, err := build("", decoded)
	if err != nil {
		return nil, err
	}

	return &Template{root: root}, nil
}

// InterpolateText compiles a template from one string.
func InterpolateText(value string) (*Template, error) {
	root, err := buildString("", value)
	if err != nil {
		return nil, err
	}

	return &Template{root: root}, nil
}

// Eval returns the JSON value that the template makes of the input.
func (t *Template) Eval(ctx context.Context, input Input) ([]byte, error) {
	value, err := t.root.eval(ctx, input)
	if err != nil {
		return nil, err
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("error writing the result of a template: %w", err)
	}

	if out.Len() > maxResult {
		return nil, fmt.Errorf("the template makes %d bytes, at most %d are allowed", out.Len(), maxResult)
	}

	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// EvalText returns what the template makes of the input as text.
func (t *Template) EvalText(ctx context.Context, input Input) (string, error) {
	value, err := t.root.eval(ctx, input)
	if err != nil {
		return "", err
	}

	return asText(value)
}

func build(path string, value any) (node, error) {
	switch v := value.(type) {
	case string:
		return buildString(path, v)
	case map[string]any:
		members := object{}

		for _, name := range slices.Sorted(maps.Keys(v)) {
			built, err := build(strings.TrimPrefix(path+"."+name, "."), v[name])
			if err != nil {
				return nil, err
			}

			members[name] = built
		}

		return members, nil
	case []any:
		elements := make(array, len(v))

		for i, element := range v {
			built, err := build(fmt.Sprintf("%s[%d]", path, i), element)
			if err != nil {
				return nil, err
			}

			elements[i] = built
		}

		return elements, nil
	default:
		return constant{value}, nil
	}
}

func buildString(path, value string) (node, error) {
	var parts text

	for rest, at := value, 0; rest != ""; rest = value[at:] {
		start := strings.Index(rest, "${")
		if start < 0 {
			parts = append(parts, constant{rest})

			break
		}

		if start > 0 && rest[start-1] == '$' {
			parts = append(parts, constant{rest[:start] + "{"})
			at += start + 2

			continue
		}

		if start > 0 {
			parts = append(parts, constant{rest[:start]})
		}

		at += start + 2

		length := expressionLength(value[at:])
		if length < 0 {
			return nil, &Error{Path: path, Line: 1, Column: at - 1, Message: "${ without its }"}
		}

		program, err := Compile(value[at : at+length])
		if err != nil {
			return nil, within(err, path, at)
		}

		parts = append(parts, typed{program})
		at += length + 1
	}

	switch {
	case len(parts) == 0:
		return constant{value}, nil
	case len(parts) == 1:
		return parts[0], nil
	default:
		return slices.Clip(parts), nil
	}
}

// within places the fault of an expression in the string that it starts at offset at of.
func within(err error, path string, at int) error {
	fault, ok := err.(*Error) //nolint:errorlint // Compile does not wrap it
	if !ok {
		return err
	}

	moved := *fault
	moved.Path = path

	if moved.Line <= 1 {
		moved.Column += at
	}

	return &moved
}

// expressionLength returns the length of the expression that text starts with, up to its closing brace; -1 where there is
// none. Braces of CEL's maps and in its strings do not count.
func expressionLength(text string) int {
	depth := 0

	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}

			depth--
		case '"', '\'':
			length := stringLength(text[i:])
			if length < 0 {
				return -1
			}

			i += length - 1
		}
	}

	return -1
}

// stringLength returns the length of the CEL string literal that text starts with; -1 where it does not end.
func stringLength(text string) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text, triple) {
		quote = triple
	}

	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}

	return -1
}

// UsesObjects implements node.
func (constant) UsesObjects() bool { return false }

// UsesObjects implements node.
func (o object) UsesObjects() bool {
	for _, member := range o {
		if member.UsesObjects() {
			return true
		}
	}

	return false
}

// UsesObjects implements node.
func (a array) UsesObjects() bool { return slices.ContainsFunc(a, node.UsesObjects) }

// UsesObjects implements node.
func (t text) UsesObjects() bool { return slices.ContainsFunc(t, node.UsesObjects) }

func (c constant) eval(context.Context, Input) (any, error) { return c.value, nil }

func (o object) eval(ctx context.Context, input Input) (any, error) {
	members := make(map[string]any, len(o))

	// In order, so that of several faults it is always the same one that is told.
	for _, name := range slices.Sorted(maps.Keys(o)) {
		value, err := o[name].eval(ctx, input)
		if err != nil {
			return nil, err
		}

		members[name] = value
	}

	return members, nil
}

func (a array) eval(ctx context.Context, input Input) (any, error) {
	elements := make([]any, len(a))

	for i, element := range a {
		value, err := element.eval(ctx, input)
		if err != nil {
			return nil, err
		}

		elements[i] = value
	}

	return elements, nil
}

func (t typed) eval(ctx context.Context, input Input) (any, error) {
	result, err := t.Program.eval(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("error evaluating ${%s}: %w", t, err)
	}

	value, err := plain(result)
	if err != nil {
		return nil, fmt.Errorf("error evaluating ${%s}: %w", t, err)
	}

	return value, nil
}

func (t text) eval(ctx context.Context, input Input) (any, error) {
	var out strings.Builder

	for _, part := range t {
		value, err := part.eval(ctx, input)
		if err != nil {
			return nil, err
		}

		rendered, err := asText(value)
		if err != nil {
			return nil, err
		}

		out.WriteString(rendered)
	}

	return out.String(), nil
}

// asText writes a value inside a string: texts as they are, everything else as JSON.
func asText(value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}

	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("error writing a value as text: %w", err)
	}

	return string(encoded), nil
}
