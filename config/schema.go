package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"gateway/resources"
)

// schemaDialect is JSON Schema 2020-12.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// schema is a JSON Schema; encoding/json writes its keys sorted, so that the same tags give the same text.
type schema map[string]any

// Schema returns the JSON Schema (2020-12) of a declared kind's documents, made from the tags of its specification. It is
// what editors complete from; what the schema can't say, Decode checks.
func Schema(kind *resources.Kind) ([]byte, error) {
	document := documentSchema(kind)
	document["$schema"] = schemaDialect

	return encodeSchema(document)
}

// SchemaAll returns one JSON Schema for documents of every declared kind.
func SchemaAll() ([]byte, error) {
	var documents []schema
	for _, kind := range resources.DeclaredKinds() {
		documents = append(documents, documentSchema(kind))
	}

	return encodeSchema(schema{"$schema": schemaDialect, "title": "Gateway document", "oneOf": documents})
}

// SchemaConfig returns the JSON Schema of the process configuration.
func SchemaConfig() ([]byte, error) {
	document := structSchema(reflect.TypeFor[Config]())
	document["$schema"], document["title"] = schemaDialect, "Gateway process configuration"

	return encodeSchema(document)
}

func encodeSchema(s schema) ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("error encoding the schema: %w", err)
	}

	return append(text, '\n'), nil
}

func documentSchema(kind *resources.Kind) schema {
	md := structSchema(reflect.TypeFor[metadata]())
	md["required"] = []string{"name"}

	return schema{
		"title":                kind.Name,
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"apiVersion", "kind", "metadata"},
		"properties": schema{
			"apiVersion": schema{"const": resources.APIVersion},
			"kind":       schema{"const": kind.Name},
			"metadata":   md,
			"spec":       structSchema(reflect.TypeOf(kind.NewSpec()).Elem()),
		},
	}
}

// structSchema is the schema of a struct: its fields by their names, nothing else.
func structSchema(t reflect.Type) schema {
	properties := schema{}

	for i := range t.NumField() {
		field := t.Field(i)
		if name := resources.FieldName(field); name != "" {
			properties[name] = fieldSchema(field)
		}
	}

	return schema{"type": "object", "additionalProperties": false, "properties": properties}
}

func fieldSchema(field reflect.StructField) schema {
	s := typeSchema(field.Type)

	if doc := field.Tag.Get("doc"); doc != "" {
		s["description"] = doc
	}

	if enum := resources.EnumOf(field); len(enum) > 0 {
		s["enum"] = enum
	}

	if text, ok := field.Tag.Lookup("default"); ok {
		s["default"] = defaultValue(field.Type, text)
	}

	return s
}

// defaultValue is a default's text as the type that the field has in documents.
func defaultValue(t reflect.Type, text string) any {
	if isText(t) {
		return text
	}

	switch t.Kind() { //nolint:exhaustive // everything else is text
	case reflect.Bool:
		return text == "true"
	case reflect.Int, reflect.Int64, reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	}

	return text
}

// isText reports whether values of the type are written as text of their own.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// typeSchema is the schema of a type, without what a field's tags add.
func typeSchema(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[resources.JSON]():
		return schema{}
	case reflect.TypeFor[resources.Selector]():
		return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
	case reflect.TypeFor[resources.Deliver]():
		since := schema{"type": "object", "additionalProperties": false, "required": []string{"since"},
			"properties": schema{"since": typeSchema(reflect.TypeFor[resources.Duration]())}}

		return schema{"oneOf": []schema{{"enum": []string{"new", "all", "last"}}, since}, "default": "new"}
	case reflect.TypeFor[resources.Size]():
		return schema{"type": []string{"string", "integer"}, "pattern": `^[0-9]+(\.[0-9]+)? ?([KMGTP]i?B?|kB|B)?$`, "minimum": 0}
	case reflect.TypeFor[resources.Duration]():
		return schema{"type": "string", "pattern": `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`}
	case reflect.TypeFor[resources.Rate]():
		return schema{"type": "string", "pattern": `^[0-9]+/[smh]$`}
	case reflect.TypeFor[Percent]():
		return schema{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`}
	}

	switch t.Kind() { //nolint:exhaustive // specifications have no other kinds; a test builds every schema
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	}

	return schema{"type": "string"}
}
