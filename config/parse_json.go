package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// parseJSON returns the node of a text that is JSON (RFC 8259), and whether it is. JSON is read as such and not as YAML
// because YAML knows no surrogate pairs in escapes, which JSON writers use for characters outside the basic plane.
func parseJSON(text []byte) (*yaml.Node, bool) {
	start := bytes.TrimLeft(text, " \t\r\n")
	if len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return nil, false
	}

	return parseJSONValue(text)
}

// parseJSONValue is parseJSON for any value, scalars too.
func parseJSONValue(text []byte) (*yaml.Node, bool) {
	if !json.Valid(text) {
		return nil, false
	}

	r := &jsonReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.decoder.UseNumber()

	n, err := r.value(1)

	return n, err == nil
}

// jsonReader makes nodes of JSON tokens.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	// line and start of the line that holds offset; they only move forward, so that positions cost one pass in all.
	line, start, offset int
}

// errDepth is never shown: YAML's parser, which is asked next, reports the same fault with its position.
var errDepth = errors.New("nested too deep")

// value reads the next value.
func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	n := r.at()

	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}

	switch token := token.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, errDepth
		}

		return n, r.container(n, token, depth)
	case string:
		n.Kind, n.Tag, n.Value, n.Style = yaml.ScalarNode, tagString, token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Kind, n.Value = yaml.ScalarNode, token.String()
	case bool:
		n.Kind, n.Value = yaml.ScalarNode, map[bool]string{true: "true", false: "false"}[token]
	case nil:
		n.Kind, n.Value = yaml.ScalarNode, "null"
	}

	return n, nil
}

// container reads the members of an array or object up to its end.
func (r *jsonReader) container(n *yaml.Node, open json.Delim, depth int) error {
	n.Kind, n.Tag, n.Style = yaml.SequenceNode, "!!seq", yaml.FlowStyle
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}

	for r.decoder.More() {
		child, err := r.value(depth + 1)
		if err != nil {
			return err
		}

		n.Content = append(n.Content, child)
	}

	_, err := r.decoder.Token()

	return err
}

// at returns an empty node at the position of the next token.
func (r *jsonReader) at() *yaml.Node {
	next := int(r.decoder.InputOffset())
	for next < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[next]) >= 0 {
		next++
	}

	for i := r.offset; i < next; i++ {
		if b := r.text[i]; b == '\n' || b == '\r' && r.text[i+1] != '\n' {
			r.line, r.start = r.line+1, i+1
		}
	}

	r.offset = next

	return &yaml.Node{Line: r.line, Column: utf8.RuneCount(r.text[r.start:next]) + 1}
}
