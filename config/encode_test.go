package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func declaredVM() *resources.VMConfig {
	vm := resources.NewVMConfig("web-1")
	vm.Metadata().Labels().Set("tier", "web")
	resources.SetUserAnnotations(vm.Metadata(), map[string]string{"note": "x"})
	resources.SetUID(vm.Metadata(), "u-1")
	resources.SetRevision(vm.Metadata(), 3)
	resources.SetOrigin(vm.Metadata(), resources.Origin{Source: resources.OriginFile, Name: "/d/a.yaml", Root: "/d"})

	return vm
}

func TestAnObjectJoinsItsHalvesInTheOrderOfTheContract(t *testing.T) {
	status := resources.NewVMStatus("web-1")
	status.TypedSpec().State = resources.StateRunning

	text, err := NewObject(declaredVM(), status).JSON()
	require.NoError(t, err)

	var keys []string

	decoder := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; decoder.More() || depth > 0; {
		token, err := decoder.Token()
		require.NoError(t, err)

		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if name, ok := token.(string); ok && depth == 1 {
				keys = append(keys, name)
			}
		}
	}

	require.Equal(t, []string{"apiVersion", "gateway/v1alpha1", "kind", "VM", "metadata", "spec", "status"}, keys)

	var object struct {
		Metadata map[string]any `json:"metadata"`
		Status   map[string]any `json:"status"`
	}

	require.NoError(t, json.Unmarshal(text, &object))
	require.Equal(t, "running", object.Status["state"])
	require.NotEmpty(t, object.Metadata["created"])
	delete(object.Metadata, "created")
	require.Equal(t, map[string]any{
		"name": "web-1", "uid": "u-1", "revision": float64(3), "origin": "file:/d/a.yaml",
		"labels": map[string]any{"tier": "web"}, "annotations": map[string]any{"note": "x"},
	}, object.Metadata)
}

func TestUserDataIsNeverShown(t *testing.T) {
	vm := declaredVM()
	vm.TypedSpec().CloudInit = &resources.CloudInit{UserData: "password: hunter2", SSHKeys: []string{"k"}}

	object := NewObject(vm, nil)
	text, err := object.JSON()
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.Contains(t, string(text), `"userData":"<redacted sha256:`)

	inYAML, err := object.YAML()
	require.NoError(t, err)
	require.NotContains(t, string(inYAML), "hunter2")
	require.Equal(t, "password: hunter2", vm.TypedSpec().CloudInit.UserData)
}

// TestWhatIsShownAsYAMLIsReadBackEqual holds the decoder and the encoder together for texts that YAML could mistake.
func TestWhatIsShownAsYAMLIsReadBackEqual(t *testing.T) {
	for _, text := range []string{
		"plain", "NO", "on", "y", "true", "null", "~", "", "1.10", "0777", "1_000", "0x1F", "1e3", ".5", "2026-01-01", "12:30:45", "# no comment", "a: b",
		"- a", " leading", "trailing ", "line\nline\n", "\n", "line\n\n\n", "  indented\nline", "tab\t", "é€😀", "'", `"`, `\`, "{", "[a]", "*a", "&a", "!a", "|", ">", "%a", "@a", "`a", "<<", "?", "=", "a #b", "---", "...",
	} {
		vm := resources.NewVMConfig("a")
		vm.TypedSpec().Description = text
		vm.TypedSpec().Placement.Selector = map[string]string{"k": text}
		vm.TypedSpec().Shutdown.Grace = 0

		object := NewObject(vm, nil)
		object.Metadata = ObjectMetadata{Name: "a"}

		out, err := object.YAML()
		require.NoError(t, err)

		errs := resources.Validate(vm)
		documents, err := Decode("f.yaml", out)

		if len(errs) > 0 {
			require.Error(t, err, "%q", text)

			continue
		}

		require.NoError(t, err, "%q in\n%s", text, out)
		require.Equal(t, vm.Spec(), documents[0].Resource.Spec(), "%q in\n%s", text, out)
	}
}

// TestEveryDefaultSurvivesEncoding finds structures that are left out of JSON while a field in them has a default: a zero
// that was written would come back as the default. Where zero is no valid value nothing can be lost.
func TestEveryDefaultSurvivesEncoding(t *testing.T) {
	zeroIsInvalid := map[string]bool{"Overcommit": true, "WebhookLimits": true, "Deliver": true}

	for _, kind := range resources.DeclaredKinds() {
		spec := reflect.TypeOf(kind.NewSpec()).Elem()

		for i := range spec.NumField() {
			field := spec.Field(i)
			if field.Type.Kind() != reflect.Struct || zeroIsInvalid[field.Type.Name()] || !hasDefault(field.Type) {
				continue
			}

			require.NotContains(t, field.Tag.Get("json"), "omit", "%s.%s", kind.Name, field.Name)
		}
	}
}

func hasDefault(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, ok := t.Field(i).Tag.Lookup("default"); ok {
			return true
		}
	}

	return false
}

func TestAnObservedKindIsShownUnderStatus(t *testing.T) {
	object := NewObject(resources.NewHostStatus("a"), nil)
	require.Nil(t, object.Spec)
	require.NotNil(t, object.Status)
}

func TestUserDataIsRedactedInWhatIsMergedIntoAVM(t *testing.T) {
	secret := resources.JSON(`{"spec":{"cloudInit":{"userData":"password: secret"},"cpus":12345678901234567890}}`)

	for name, spec := range map[string]any{
		"an override": &resources.OverrideSpec{Patch: secret},
		"an action":   &resources.ActionSpec{Body: secret},
		"a trigger": &resources.TriggerSpec{Do: []resources.TriggerAction{
			{Patch: &resources.TriggerPatch{Merge: secret}}, {Apply: &resources.TriggerApply{Document: secret}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			shown, err := json.Marshal(Redact(spec))
			require.NoError(t, err)
			require.NotContains(t, string(shown), "secret")
			require.Contains(t, string(shown), "redacted sha256:")
			require.Contains(t, string(shown), "12345678901234567890")

			kept, err := json.Marshal(spec)
			require.NoError(t, err)
			require.Contains(t, string(kept), "secret", "the argument is not changed")
		})
	}
}
