package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// maxFuzzTime is far above what an input of a fuzzer's size may take, and far below a hang.
const maxFuzzTime = 5 * time.Second

// requirePlaced checks that the error has faults, each with a position and a message on one line.
func requirePlaced(t *testing.T, file string, err error) {
	t.Helper()

	var errs Errors
	require.True(t, errors.As(err, &errs), "%T", err)
	require.NotEmpty(t, errs)
	require.LessOrEqual(t, len(errs), maxErrors)

	for _, e := range errs {
		require.Equal(t, file, e.File)
		require.Positive(t, e.Line, e.Message)
		require.Positive(t, e.Column, e.Message)
		require.NotEmpty(t, e.Message)
		require.NotContains(t, e.Message, "\n")
	}
}

func FuzzDecode(f *testing.F) {
	for _, path := range []string{"vm", "host", "network", "image", "webhook", "schedule", "subscription", "trigger"} {
		text, err := os.ReadFile("examples/" + path + ".yaml")
		require.NoError(f, err)
		f.Add(text)
	}

	for _, text := range []string{
		"", "a: &a [*a]", "{\"a\": \"\\ud83d\\ude00\"}", "a:\n  <<: [*x]\n", "a: &a {b: 1}\nc: {<<: *a, d: !!str 1}", "? [a]\n: b\n", "\xff\xfea\x00", "- \n-", "a: b\r\nc: \xe9",
		"%YAML 1.2\n---\na: 1\n...\n", bomb(), vmText("a", "cpus: 0x1F", "memory: 1.5GiB"), vmText("a", "adopt: ~", "cpus: .inf"),
		"apiVersion: gateway/v1alpha1\nkind: Trigger\nmetadata: {name: a}\nspec: {on: {source: file}, do: [{publish: {subject: a, data: [1e400, +.5, 0x1F, 010]}}]}\n",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		elapsed := stopwatch(t)
		documents, err := Decode("f.yaml", data)
		require.Less(t, elapsed(), maxFuzzTime)

		if err != nil {
			requirePlaced(t, "f.yaml", err)

			return
		}

		for _, document := range documents {
			require.Empty(t, resources.Validate(document.Resource))
			requireReadBack(t, document)
		}
	})
}

// requireReadBack checks that what is shown of a document declares the same again.
func requireReadBack(t *testing.T, document Document) {
	t.Helper()

	if vm, ok := document.Resource.Spec().(*resources.VMConfigSpec); ok && vm.CloudInit != nil && vm.CloudInit.UserData != "" {
		return
	}

	object := NewObject(document.Resource, nil)
	object.Metadata.Created, object.Metadata.Origin = time.Time{}, ""

	text, err := object.YAML()
	require.NoError(t, err)

	again, err := Decode("again.yaml", text)
	require.NoError(t, err, "%s", text)
	require.Len(t, again, 1)

	first, err := NewObject(document.Resource, nil).JSON()
	require.NoError(t, err)

	second, err := NewObject(again[0].Resource, nil).JSON()
	require.NoError(t, err)
	require.Equal(t, withoutCreated(string(first)), withoutCreated(string(second)))
}

func withoutCreated(text string) string {
	before, after, ok := strings.Cut(text, `"created":"`)
	if !ok {
		return text
	}

	_, after, _ = strings.Cut(after, `"`)

	return before + after
}

func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile("examples/config.yaml")
	require.NoError(f, err)

	f.Add(text, "")
	f.Add([]byte("http: {listen: \":0\"}\nnats: {url: \"nats://a,b\"}\n"), "GATEWAY_HTTP_LISTEN=:1")
	f.Add([]byte("deletions: {max: 100%, free: -1}\npolicy: {hostURIs: [\"%zz\"]}\n"), "GATEWAY_RESYNC=1h")

	f.Fuzz(func(t *testing.T, data []byte, variable string) {
		elapsed := stopwatch(t)
		config, err := load("gateway.yaml", data, []string{variable})
		require.Less(t, elapsed(), maxFuzzTime)

		if err == nil {
			require.NotEmpty(t, config.DataDir)
			require.Equal(t, config.NATS.Prefix, config.Policy.NATSPrefix)

			return
		}

		if name, _, ok := strings.Cut(variable, "="); ok && strings.HasPrefix(name, envPrefix) {
			// Faults of a variable have its name in place of a position.
			return
		}

		requirePlaced(t, "gateway.yaml", err)
	})
}

// FuzzMergeObject: a patch is refused and changes nothing, or what comes of it is valid, and the same patch again changes
// nothing more.
func FuzzMergeObject(f *testing.F) {
	for _, patch := range []string{
		`{"spec":{"cpus":4}}`, `{"metadata":{"labels":{"tag":"a","tier":null},"annotations":{"a":"b"}}}`, `{"spec":{"disks":[{"name":"root","size":"1GiB"}]}}`,
		`{"spec":null}`, `{"spec":{"shutdown":{"grace":null}},"kind":"Host"}`, `[]`, `{"spec":{"cpus":1e3}}`,
	} {
		f.Add([]byte(patch))
	}

	f.Fuzz(func(t *testing.T, patch []byte) {
		vm := declaredVM()
		before := objectText(t, vm)

		if MergeObject(vm, patch) != nil {
			require.Equal(t, before, objectText(t, vm))

			return
		}

		require.Empty(t, resources.Validate(vm))
		require.Equal(t, "u-1", resources.UIDOf(vm.Metadata()), "the gateway's own are not patched")

		once := objectText(t, vm)
		require.NoError(t, MergeObject(vm, patch))
		require.Equal(t, once, objectText(t, vm))
	})
}

// objectText is an object as users see it.
func objectText(t *testing.T, vm *resources.VMConfig) string {
	t.Helper()

	text, err := NewObject(vm, nil).JSON()
	require.NoError(t, err)

	return string(text)
}
