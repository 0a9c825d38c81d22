package resources

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// OverrideBase returns the values that a VM's declared specification has in the fields that a merge patch of it names, for
// OverrideSpec.Base. Two specifications that agree in those fields have the same base, byte for byte. The base of an empty
// patch is empty.
func OverrideBase(spec *VMConfigSpec, patch JSON) (JSON, error) {
	if len(patch) == 0 {
		return nil, nil
	}

	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("error reading the specification: %w", err)
	}

	values, err := membersOf(encoded)
	if err != nil {
		return nil, fmt.Errorf("error reading the specification: %w", err)
	}

	fields, err := membersOf(patch)
	if err != nil {
		return nil, fmt.Errorf("error reading the patch: %w", err)
	}

	return jsonOf(valuesOf(values, fields))
}

// OverrideLabelsBase is OverrideBase for labels and a merge patch of them.
func OverrideLabelsBase(labels map[string]string, patch JSON) (JSON, error) {
	if len(patch) == 0 {
		return nil, nil
	}

	fields, err := membersOf(patch)
	if err != nil {
		return nil, fmt.Errorf("error reading the patch of labels: %w", err)
	}

	values := make(map[string]any, len(labels))
	for name, value := range labels {
		values[name] = value
	}

	return jsonOf(valuesOf(values, fields))
}

func jsonOf(members map[string]any) (JSON, error) {
	encoded, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("error writing a part of an override: %w", err)
	}

	return encoded, nil
}

// membersOf reads a JSON object, its numbers as they are written.
func membersOf(text []byte) (members map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()

	return members, decoder.Decode(&members)
}

// valuesOf returns the members of values that fields names; null for those that are not there.
func valuesOf(values, fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))

	for name, field := range fields {
		value := values[name]
		inner, fieldIsObject := field.(map[string]any)

		if members, ok := value.(map[string]any); ok && fieldIsObject {
			value = valuesOf(members, inner)
		}

		out[name] = value
	}

	return out
}
