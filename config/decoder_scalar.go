package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// plainInt is a whole number that every reader reads the same way: 010 is 8 in YAML 1.1 and 10 in YAML 1.2.
var plainInt = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// scalar decodes a string, boolean or number.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := scalarTag(n)

	switch v.Kind() { //nolint:exhaustive // see value
	case reflect.String:
		if tag != tagString && tag != "!" {
			d.mismatch(n, path, "string")

			return
		}

		v.SetString(n.Value)
	case reflect.Bool:
		if tag != tagBool {
			d.mismatch(n, path, "boolean")

			return
		}

		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		d.integer(n, v, path)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if tag != tagInt && tag != tagFloat || strings.HasPrefix(n.Value, "0") && !jsonNumber.MatchString(n.Value) {
			d.mismatch(n, path, "number")

			return
		}

		if err != nil || f != f || f-f != 0 {
			d.fail(n, path, "%q is not a number that can be used here", n.Value)

			return
		}

		v.SetFloat(f)
	default:
		d.fail(n, path, "this field can't be set")
	}
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string) {
	if scalarTag(n) != tagInt || !plainInt.MatchString(n.Value) {
		d.mismatch(n, path, "whole number")

		return
	}

	i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	if err != nil {
		d.fail(n, path, "%.40s is out of range", n.Value)

		return
	}

	v.SetInt(i)
}

// text decodes a value with a text form of its own: a size, a duration, a rate. Numbers are taken as their text, so that a
// size in bytes needs no quotes.
func (d *decoder) text(n *yaml.Node, target encoding.TextUnmarshaler, path string) {
	switch scalarTag(n) {
	case tagString, tagInt, tagFloat, "!":
	default:
		d.mismatch(n, path, "string")

		return
	}

	if err := target.UnmarshalText([]byte(n.Value)); err != nil {
		d.fail(n, path, "%s", err)
	}
}

// selector decodes a map of labels.
func (d *decoder) selector(n *yaml.Node, target *resources.Selector, path string) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, path, "mapping")

		return
	}

	target.Match = nil
	if len(n.Content) > 0 {
		d.mapping(n, reflect.ValueOf(&target.Match).Elem(), path)
	}
}

// deliver decodes the short form (new, all, last) or the long one ({since: 1h}).
func (d *decoder) deliver(n *yaml.Node, target *resources.Deliver, path string) {
	if n.Kind != yaml.MappingNode {
		d.text(n, target, path)

		return
	}

	var long struct {
		Since resources.Duration `json:"since"`
	}

	before := len(d.errs)
	d.structure(n, reflect.ValueOf(&long).Elem(), path)

	switch {
	case len(d.errs) > before:
	case long.Since <= 0:
		d.fail(n, path, "{since: DURATION} with a duration above zero is needed, or one of new, all, last")
	default:
		target.Policy, target.Since = "since", long.Since
	}
}

// json keeps any value as JSON text, numbers digit for digit.
func (d *decoder) json(n *yaml.Node, target *resources.JSON, path string) {
	var out bytes.Buffer

	if d.appendJSON(&out, n, path) {
		*target = out.Bytes()
	}
}

// appendJSON writes a node as JSON, keys sorted, so that the same value is the same text. It returns false after a fault.
func (d *decoder) appendJSON(out *bytes.Buffer, n *yaml.Node, path string) bool {
	if n.Style&yaml.TaggedStyle != 0 && !knownTag(n.Tag) {
		d.fail(n, path, "the tag %s is not supported", n.Tag)

		return false
	}

	switch n.Kind { //nolint:exhaustive // aliases and documents are gone
	case yaml.MappingNode:
		return d.appendObject(out, n, path)
	case yaml.SequenceNode:
		out.WriteByte('[')

		for i, child := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}

			if !d.appendJSON(out, child, path) {
				return false
			}
		}

		out.WriteByte(']')

		return true
	}

	switch scalarTag(n) {
	case tagNull:
		out.WriteString("null")
	case tagBool:
		out.WriteString(strings.ToLower(n.Value))
	case tagInt, tagFloat:
		text, ok := jsonText(n.Value)
		if !ok {
			d.fail(n, path, "%.40q is a number that JSON can't hold, or that is read in different ways: put it in quotes", n.Value)

			return false
		}

		out.WriteString(text)
	default:
		out.Write(quote(n.Value))
	}

	return true
}

func (d *decoder) appendObject(out *bytes.Buffer, n *yaml.Node, path string) bool {
	order := make([]int, 0, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		order = append(order, i)
	}

	slices.SortFunc(order, func(a, b int) int { return strings.Compare(n.Content[a].Value, n.Content[b].Value) })
	out.WriteByte('{')

	for at, i := range order {
		if at > 0 {
			out.WriteByte(',')
		}

		out.Write(quote(n.Content[i].Value))
		out.WriteByte(':')

		if !d.appendJSON(out, n.Content[i+1], path) {
			return false
		}
	}

	out.WriteByte('}')

	return true
}

// quote returns text as a JSON string, without the escapes for HTML.
func quote(text string) []byte {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	// A string can always be encoded.
	_ = encoder.Encode(text) //nolint:errcheck // see above

	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
