package vm

import (
	"encoding/json"
	"slices"
)

// overridden reports whether the override that is in force has this field of the spec.
func (p *pass) overridden(field string) bool {
	return p.status.Override != nil && slices.Contains(p.overriddenFields(), field)
}

// overriddenFields are the top-level fields of the override's patch.
func (p *pass) overriddenFields() (fields []string) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(p.patch, &patch); err != nil {
		return nil // it did apply, so this does not happen
	}

	for field := range patch {
		fields = append(fields, field)
	}

	return fields
}
