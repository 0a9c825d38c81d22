package resources

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// SetDefaults sets every field of *spec that is zero and has a `default` tag, in nested structures too (not behind nil
// pointers, and not in elements that a slice does not have yet: who adds them calls SetDefaults for them).
// The tag is the only place where a default is written down: the decoder, the constructors and the schema read it.
func SetDefaults(spec any) {
	setDefaults(reflect.ValueOf(spec).Elem())
}

func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}

	for i := range v.NumField() {
		field, fv := v.Type().Field(i), v.Field(i)
		if !field.IsExported() {
			continue
		}

		if tag, ok := field.Tag.Lookup("default"); ok && fv.IsZero() {
			if err := setText(fv, tag); err != nil {
				panic(fmt.Sprintf("default of %s.%s: %s", v.Type(), field.Name, err))
			}

			continue
		}

		setDefaults(fv)
	}
}

// setText sets a scalar from its text.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}

	switch v.Kind() { //nolint:exhaustive // scalars only: anything else is a mistake in a tag
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}

		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}

		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}

		v.SetFloat(f)
	default:
		return fmt.Errorf("a %s can't have a default", v.Kind())
	}

	return nil
}

// EnumOf returns the values that a field with an `enum` tag may have.
func EnumOf(field reflect.StructField) []string {
	tag := field.Tag.Get("enum")
	if tag == "" {
		return nil
	}

	return strings.Split(tag, ",")
}

// FieldName returns the name of a field in documents and JSON, or "" where it is not part of them.
func FieldName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "-" || !field.IsExported() {
		return ""
	}

	return name
}
