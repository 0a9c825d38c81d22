package adoption

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// short is a specification that is written without its fields that are as they are by default.
type short struct {
	// spec and defaults are pointers to structures of one type.
	spec, defaults any
}

// always are fields that a reader looks for, also where they are the default.
var always = []string{"mode", "cpus", "memory"}

// MarshalJSON implements json.Marshaler. The fields are in the order of their structure.
func (s short) MarshalJSON() ([]byte, error) {
	var (
		out            bytes.Buffer
		spec, defaults = reflect.ValueOf(s.spec).Elem(), reflect.ValueOf(s.defaults).Elem()
	)

	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(always, name) && reflect.DeepEqual(spec.Field(i).Interface(), defaults.Field(i).Interface()) {
			continue
		}

		value, err := json.Marshal(spec.Field(i).Interface())
		if err != nil {
			return nil, err
		}

		out.WriteString(map[bool]string{true: "{", false: ","}[out.Len() == 0])
		out.WriteString(`"` + name + `":`)
		out.Write(value)
	}

	if out.Len() == 0 {
		return []byte("{}"), nil
	}

	out.WriteByte('}')

	return out.Bytes(), nil
}
