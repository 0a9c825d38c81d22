package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestAMergePatchChangesWhatItNames(t *testing.T) {
	base := func() *resources.VMConfigSpec {
		spec := resources.NewVMConfig("a").TypedSpec()
		spec.CPUs = 4
		spec.Shutdown.Grace = 0
		spec.Adopt = &resources.Adopt{}
		spec.Placement.Selector = map[string]string{"rack": "r1", "zone": ""}
		spec.Disks = []resources.Disk{{Name: "root", Size: resources.GiB, OnDelete: resources.OnDeleteKeep}}

		return spec
	}

	for name, test := range map[string]struct {
		patch string
		want  func(*resources.VMConfigSpec)
	}{
		"an empty patch changes nothing, zeros included": {`{}`, func(*resources.VMConfigSpec) {}},
		"a scalar": {`{"power": "stopped"}`, func(s *resources.VMConfigSpec) { s.Power = "stopped" }},
		"null takes a field to its default": {`{"cpus": null, "shutdown": {"grace": null}}`, func(s *resources.VMConfigSpec) {
			s.CPUs, s.Shutdown.Grace = 1, resources.Duration(time.Minute)
		}},
		"null takes a part away": {`{"adopt": null}`, func(s *resources.VMConfigSpec) { s.Adopt = nil }},
		"a map is merged by key": {`{"placement": {"selector": {"rack": null, "row": "2"}}}`, func(s *resources.VMConfigSpec) {
			s.Placement.Selector = map[string]string{"zone": "", "row": "2"}
		}},
		"a list is replaced": {`{"disks": []}`, func(s *resources.VMConfigSpec) { s.Disks = []resources.Disk{} }},
		"a part is made, without its nulls": {`{"boot": {"kernel": "/k", "initrd": null}}`, func(s *resources.VMConfigSpec) {
			s.Boot = &resources.Boot{Kernel: "/k"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := base(), base()
			test.want(want)
			require.NoError(t, MergeSpec(got, []byte(test.patch)))
			require.Equal(t, want, got)
		})
	}
}

func TestAMergePatchThatDoesNotFitChangesNothing(t *testing.T) {
	for patch, want := range map[string]string{
		`{"cpu": 2}`:              `unknown field "cpu" in spec: did you mean "cpus"?`,
		`{"cpus": 0}`:             `spec.cpus: 0 is not between 1 and 512`,
		`{"cpus": "2"}`:           `spec.cpus: a whole number is needed, not the string "2": leave out the quotes`,
		`{"power": "stoped"}`:     `spec.power: "stoped" is not one of running, stopped, paused: did you mean "stopped"?`,
		`{"cpus": 2, "cpus": 3}`:  `"cpus" is already given in line 1`,
		`[]`:                      `the patch is not a JSON object of at most 64 levels`,
		`{"cpus": 2`:              `the patch is not a JSON object of at most 64 levels`,
		`{"disks": [{"size":1}]}`: "spec.disks[0].name: a name is required\nspec.disks[0].size: 1 is not between 1MiB and 64TiB in blocks of 512 bytes",
	} {
		spec := resources.NewVMConfig("a").TypedSpec()
		require.EqualError(t, MergeSpec(spec, []byte(patch)), want, patch)
		require.Equal(t, resources.NewVMConfig("a").TypedSpec(), spec)
	}
}

// TestEveryFilledSpecSurvivesAnEmptyPatch would fail for a field whose value does not decode from what nodeOf makes of it.
func TestEveryKindSurvivesAnEmptyPatch(t *testing.T) {
	for _, document := range exampleDocuments(t) {
		want := document.Resource.DeepCopy().Spec()
		require.NoError(t, MergeSpec(document.Resource.Spec(), []byte(`{}`)))
		require.Equal(t, want, document.Resource.Spec(), document.Kind.Name)
	}
}

func TestAnObjectIsPatchedInItsLabelsAnnotationsAndSpec(t *testing.T) {
	vm := declaredVM()
	require.NoError(t, MergeObject(vm, []byte(`{"metadata": {"labels": {"tag": "1", "tier": null}, "annotations": {"a": "b"}}, "spec": {"cpus": 2}}`)))
	require.Equal(t, map[string]string{"tag": "1"}, vm.Metadata().Labels().Raw())
	require.Equal(t, map[string]string{"note": "x", "a": "b"}, resources.UserAnnotations(vm.Metadata()))
	require.Equal(t, "u-1", resources.UIDOf(vm.Metadata()))
	require.Equal(t, int64(3), resources.RevisionOf(vm.Metadata()))
	require.Equal(t, 2, vm.TypedSpec().CPUs)

	for patch, want := range map[string]string{
		`{"metadata": {"name": "b"}}`: `unknown field "name" in metadata: known are labels, annotations`,
		`{"status": {}}`:              `status: only metadata and spec can be patched`,
		`{"metadata": {"annotations": {"gateway.dev/origin": "api"}}}`: `metadata.annotations.gateway.dev/origin: names starting with gateway.dev/ are the gateway's own`,
		`{"metadata": {"labels": {"a": 1}}}`:                           `metadata.labels.a: a string is needed, not the number "1": put it in quotes`,
		`{"metadata": {"labels": {"a": "b"}}, "spec": {"cpus": 0}}`:    `spec.cpus: 0 is not between 1 and 512`,
		`{"spec": null}`: `spec: a value is missing: a mapping is needed`,
	} {
		before := vm.DeepCopy()
		require.EqualError(t, MergeObject(vm, []byte(patch)), want, patch)
		require.Equal(t, before.Spec(), vm.Spec())
		require.True(t, before.Metadata().Equal(*vm.Metadata()))
	}
}
