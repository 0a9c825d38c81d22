package vm

import (
	"bytes"
	"encoding/json"
	"fmt"

	"gateway/resources"
)

func mergeSpec(declared *resources.VMConfigSpec, patch resources.JSON) (*resources.VMConfigSpec, error) {
	text, err := json.Marshal(declared)
	if err != nil {
		return nil, err
	}
	var base, over any
	if err := json.Unmarshal(text, &base); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &over); err != nil {
		return nil, err
	}
	text, err = json.Marshal(merge(base, over))
	if err != nil {
		return nil, err
	}
	out := new(resources.VMConfigSpec)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return nil, err
	}
	if errs := out.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("%v", errs)
	}
	return out, nil
}

func merge(base, over any) any {
	o, ok := over.(map[string]any)
	if !ok {
		return over
	}
	b, ok := base.(map[string]any)
	if !ok {
		b = map[string]any{}
	}
	for k, v := range o {
		if v == nil {
			delete(b, k)
		} else {
			b[k] = merge(b[k], v)
		}
	}
	return b
}
