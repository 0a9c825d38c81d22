package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// exampleFiles returns the text of every example document, by path.
func exampleFiles(t *testing.T) map[string][]byte {
	t.Helper()

	paths, err := filepath.Glob("examples/*.yaml")
	require.NoError(t, err)

	quickstart, err := filepath.Glob("examples/quickstart/*.yaml")
	require.NoError(t, err)

	files := map[string][]byte{}

	for _, path := range append(paths, quickstart...) {
		if filepath.Base(path) == "config.yaml" {
			continue
		}

		text, err := os.ReadFile(path)
		require.NoError(t, err)

		files[path] = text
	}

	return files
}

func exampleDocuments(t *testing.T) (all []Document) {
	t.Helper()

	for path, text := range exampleFiles(t) {
		documents, err := Decode(path, text)
		require.NoError(t, err)

		all = append(all, documents...)
	}

	return all
}

func TestEveryExampleIsValidAndAllowed(t *testing.T) {
	policy := Default().Policy
	kinds := map[string]bool{}

	for _, document := range exampleDocuments(t) {
		require.Empty(t, policy.Check(document.Resource), "%s:%d", document.File, document.Line)
		require.Regexp(t, `^examples/(quickstart/)?[a-z]+\.yaml$`, document.File)

		kinds[document.Kind.Name] = true
	}

	for _, kind := range resources.DeclaredKinds() {
		require.True(t, kinds[kind.Name], "no example of %s", kind.Name)
		require.FileExists(t, "examples/"+strings.ToLower(kind.Name)+".yaml")
	}
}

func TestTheQuickstartIsThreeTinyVMsOneOfThemOnANetwork(t *testing.T) {
	onLab := []string{}
	vms := []string{}

	for _, document := range exampleDocuments(t) {
		if !strings.Contains(document.File, "quickstart/") {
			continue
		}

		switch spec := document.Resource.Spec().(type) {
		case *resources.VMConfigSpec:
			vms = append(vms, document.Resource.Metadata().ID())

			require.Equal(t, 64*resources.MiB, spec.Memory)
			require.Equal(t, 1, spec.CPUs)
			require.Empty(t, spec.Disks)

			for _, nic := range spec.Interfaces {
				require.Equal(t, "lab", nic.Network)

				onLab = append(onLab, document.Resource.Metadata().ID())
			}
		case *resources.HostSpec:
			require.Equal(t, "local", document.Resource.Metadata().ID())
			require.Equal(t, "qemu:///system", spec.URI)
		case *resources.NetworkSpec:
			require.Equal(t, resources.NetworkSpec{Mode: resources.NetworkIsolated, Subnet: "10.77.0.0/24"}, *spec)
		}
	}

	slices.Sort(vms)
	require.Equal(t, []string{"hello", "lonely", "worker"}, vms)
	require.Equal(t, []string{"worker"}, onLab)
}

func TestTheExampleConfigurationHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("examples/config.yaml")
	require.NoError(t, err)

	config, err := Load("examples/config.yaml", nil)
	require.NoError(t, err)
	require.Equal(t, "home", config.ID)

	want := Default()
	require.Equal(t, want.Policy, config.Policy)
	require.Equal(t, want.Deletions, config.Deletions)
	require.Equal(t, want.Resync, config.Resync)

	for _, key := range scalarKeys(reflect.ValueOf(want).Elem(), "") {
		name := key.path[strings.LastIndex(key.path, ".")+1:]
		require.Contains(t, string(text), name+":", key.path)
	}
}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()

	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)

	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("schema.json", document))

	s, err := compiler.Compile("schema.json")
	require.NoError(t, err)

	return s
}

// asJSON returns the documents of a YAML text as the values that JSON Schema checks.
func asJSON(t *testing.T, file string, text []byte) (values []any) {
	t.Helper()

	roots, errs := parse(file, text)
	require.Empty(t, errs)

	for _, root := range roots {
		var out bytes.Buffer

		require.True(t, newDecoder(file).appendJSON(&out, root, ""))

		value, err := jsonschema.UnmarshalJSON(&out)
		require.NoError(t, err)

		values = append(values, value)
	}

	return values
}

func TestEveryExampleFitsItsSchema(t *testing.T) {
	all, err := SchemaAll()
	require.NoError(t, err)

	every := compiled(t, all)
	schemas := map[string]*jsonschema.Schema{}

	for _, kind := range resources.DeclaredKinds() {
		text, err := Schema(kind)
		require.NoError(t, err)

		schemas[kind.Name] = compiled(t, text)
	}

	for path, text := range exampleFiles(t) {
		for _, value := range asJSON(t, path, text) {
			kind := value.(map[string]any)["kind"].(string)
			require.NoError(t, schemas[kind].Validate(value), path)
			require.NoError(t, every.Validate(value), path)
		}
	}

	text, err := os.ReadFile("examples/config.yaml")
	require.NoError(t, err)

	forConfig, err := SchemaConfig()
	require.NoError(t, err)
	require.NoError(t, compiled(t, forConfig).Validate(asJSON(t, "config.yaml", text)[0]))
}

func TestTheSchemaRefusesWhatDecodeRefuses(t *testing.T) {
	kind, _ := resources.KindByName("VM")
	text, err := Schema(kind)
	require.NoError(t, err)

	s := compiled(t, text)

	for _, line := range []string{"memroy: 1GiB", "cpus: x", "power: on", "memory: lots", "protect: yes", "shutdown: {grace: soon}", "disks: {}"} {
		require.Error(t, s.Validate(asJSON(t, "f.yaml", []byte(vmText("a", line)))[0]), line)
	}

	require.NoError(t, s.Validate(asJSON(t, "f.yaml", []byte(vmText("a", "memory: 1.5GiB")))[0]))
}
