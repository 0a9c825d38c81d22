package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// envPrefix starts the variables that override the file.
const envPrefix = "GATEWAY_"

// scalarKey is a key that a variable can set.
type scalarKey struct {
	path  string
	field reflect.StructField
	value reflect.Value
}

// scalarKeys returns the keys below v that hold one value. Lists have no variable: their text would need a notation.
func scalarKeys(v reflect.Value, path string) (keys []scalarKey) {
	for i := range v.NumField() {
		field := v.Type().Field(i)

		name := resources.FieldName(field)
		if name == "" {
			continue
		}

		if path != "" {
			name = path + "." + name
		}

		value := v.Field(i)
		_, isText := value.Addr().Interface().(encoding.TextUnmarshaler)

		switch {
		case value.Kind() == reflect.Struct && !isText:
			keys = append(keys, scalarKeys(value, name)...)
		case value.Kind() != reflect.Slice:
			keys = append(keys, scalarKey{path: name, field: field, value: value})
		}
	}

	return keys
}

// variables returns the names that set a key: dataDir is GATEWAY_DATADIR, and GATEWAY_DATA_DIR as people write it.
func variables(path string) []string {
	short := envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))

	var long strings.Builder

	long.WriteString(envPrefix)

	before := '.'

	for _, r := range path {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			long.WriteByte('_')
		}

		if r == '.' {
			long.WriteByte('_')
		} else {
			long.WriteRune(unicode.ToUpper(r))
		}

		before = r
	}

	return slices.Compact([]string{short, long.String()})
}

// environment sets what GATEWAY_… variables say and returns the variable that set each path. Empty variables count as not
// set, as everywhere in compose files; those that match no key are left alone, since other programs have theirs.
func (d *decoder) environment(config *Config, environ []string) map[string]string {
	values := map[string]string{}

	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) && value != "" {
			values[name] = value
		}
	}

	set := map[string]string{}

	for _, key := range scalarKeys(reflect.ValueOf(config).Elem(), "") {
		for _, name := range variables(key.path) {
			text, ok := values[name]
			if !ok {
				continue
			}

			if other := set[key.path]; other != "" && values[other] != text {
				d.errs = append(d.errs, Error{File: name, Message: fmt.Sprintf("%s sets the same key to another value", other)})

				continue
			}

			set[key.path] = name
			d.fromText(key, name, text)
		}
	}

	return set
}

// fromText decodes a variable as the file's value would be, with the variable's name in place of a position.
func (d *decoder) fromText(key scalarKey, name, text string) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if _, isText := key.value.Addr().Interface().(encoding.TextUnmarshaler); key.value.Kind() == reflect.String && !isText {
		// 1.10 and true are text where text is needed: nobody can put quotes around a variable.
		n.Style = yaml.DoubleQuotedStyle
	}

	e := newDecoder(name)
	e.value(n, key.value, key.path)
	e.enum(n, key.field, key.value, key.path)

	for _, fault := range e.errs {
		fault.Line, fault.Column = 0, 0
		d.errs = append(d.errs, fault)
	}

	if len(e.errs) > 0 {
		d.faulty[key.path] = true
	}
}
