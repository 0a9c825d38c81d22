package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"gateway/resources"
)

// Redact returns the specification without what must not be shown: the user data of cloud-init, of which only the digest
// remains, in a VM as in what is merged into one. It never changes its argument. Specifications without secrets are returned
// as they are.
func Redact(spec any) any {
	switch s := spec.(type) {
	case *resources.VMConfigSpec:
		return redactVM(s)
	case *resources.OverrideSpec:
		shown := *s
		shown.Patch, shown.Base = redactJSON(s.Patch), redactJSON(s.Base)

		return &shown
	case *resources.ActionSpec:
		shown := *s
		shown.Body = redactJSON(s.Body)

		return &shown
	case *resources.TriggerSpec:
		return redactTrigger(s)
	default:
		return spec
	}
}

func redactVM(vm *resources.VMConfigSpec) *resources.VMConfigSpec {
	if vm.CloudInit == nil || vm.CloudInit.UserData == "" {
		return vm
	}

	shown := vm.DeepCopy()
	shown.CloudInit.UserData = redacted(vm.CloudInit.UserData)

	return &shown
}

func redactTrigger(trigger *resources.TriggerSpec) *resources.TriggerSpec {
	shown := trigger.DeepCopy()

	for i := range shown.Do {
		if do := &shown.Do[i]; do.Apply != nil {
			do.Apply.Document = redactJSON(do.Apply.Document)
		} else if do.Patch != nil {
			do.Patch.Merge = redactJSON(do.Patch.Merge)
		}
	}

	return &shown
}

// redacted is what stands in place of a secret.
func redacted(secret string) string {
	return fmt.Sprintf("%s%x>", resources.RedactedPrefix, sha256.Sum256([]byte(secret)))
}

// redactJSON redacts the user data in a document or a patch. A text that has none, as most, is returned as it is.
func redactJSON(text resources.JSON) resources.JSON {
	if !bytes.Contains(text, []byte(`"userData"`)) {
		return text
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()

	var value any
	if decoder.Decode(&value) != nil || !redactMembers(value) {
		return text // what is no JSON is refused on every way in
	}

	shown, err := json.Marshal(value)
	if err != nil {
		return text // what was decoded can be encoded
	}

	return shown
}

// redactMembers redacts within a value, and reports whether there was something to redact.
func redactMembers(value any) (changed bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if data, ok := member.(string); ok && name == "userData" && data != "" && !strings.HasPrefix(data, resources.RedactedPrefix) {
				v[name], changed = redacted(data), true
			} else if redactMembers(member) {
				changed = true
			}
		}
	case []any:
		for _, element := range v {
			changed = redactMembers(element) || changed
		}
	}

	return changed
}
