package config

import (
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Tags of YAML 1.2's core schema.
const (
	tagNull   = "!!null"
	tagBool   = "!!bool"
	tagInt    = "!!int"
	tagFloat  = "!!float"
	tagString = "!!str"
)

var (
	intPattern   = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	floatPattern = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	jsonNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// scalarTag returns the type of a scalar by YAML 1.2's core schema; empty for what is no scalar, the tag itself for one
// that the core schema does not know. It does not rely on the parser's tags, which follow YAML 1.1 in part: 1_000 and
// 2026-01-01 are text in YAML 1.2.
func scalarTag(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}

	if n.Style&yaml.TaggedStyle != 0 {
		return n.Tag
	}

	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return tagString
	}

	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return tagNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return tagBool
	}

	switch {
	case intPattern.MatchString(n.Value):
		return tagInt
	case floatPattern.MatchString(n.Value):
		return tagFloat
	}

	return tagString
}

// describe names what a node is, for messages.
func describe(n *yaml.Node) string {
	switch n.Kind { //nolint:exhaustive // the others are scalars
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	}

	switch scalarTag(n) {
	case tagNull:
		return "null"
	case tagBool:
		return "boolean"
	case tagInt, tagFloat:
		return "number"
	}

	return "string"
}

// jsonText returns a YAML number as JSON writes it, digit for digit where that is possible; false for what JSON can't
// hold (.inf, .nan) and for leading zeros, which YAML 1.1 and 1.2 read differently.
func jsonText(number string) (string, bool) {
	if jsonNumber.MatchString(number) {
		return number, true
	}

	if strings.HasPrefix(number, "0x") || strings.HasPrefix(number, "0o") {
		n, ok := new(big.Int).SetString(number, 0)
		if !ok {
			return "", false
		}

		return n.String(), true
	}

	// What is left differs from JSON by a plus sign, or by a point without digits on one side of it.
	text := strings.TrimPrefix(number, "+")
	sign := ""

	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}

	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}

	if i := strings.IndexByte(text, '.'); i >= 0 && (i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9') {
		text = text[:i] + text[i+1:]
	}

	return sign + text, jsonNumber.MatchString(sign + text)
}
