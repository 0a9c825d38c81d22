package store_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

func TestAnOverrideOfAClientIsHeldAsADocumentIs(t *testing.T) {
	f := newFixture(t, config.Default().Policy)
	f.apply(t, store.Change{Object: vm("web", cpus(2), func(s *resources.VMConfigSpec) {
		s.Disks = []resources.Disk{{Name: "root", Size: 2 * resources.GiB, OnDelete: resources.OnDeleteKeep}}
	}), Origin: fileA})

	guarded := state.WrapCore(f.Guard(f.State()))

	for name, test := range map[string]struct {
		patch, labels, reason string
	}{
		"a path that policy refuses": {patch: `{"boot":{"kernel":"/etc/shadow"}}`, reason: resources.ReasonPolicyRefused},
		"a value out of range":       {patch: `{"cpus":0}`, reason: resources.ReasonInvalid},
		"an unknown field":           {patch: `{"cpu":1}`, reason: resources.ReasonInvalid},
		"no JSON":                    {patch: `{`, reason: resources.ReasonInvalid},
		"a disk that shrinks":        {patch: `{"disks":[{"name":"root","size":"1GiB"}]}`, reason: resources.ReasonImmutable},
		"labels that are none":       {labels: `{"a":7}`, reason: resources.ReasonInvalid},
		"a label that is none":       {labels: `{"a b":"x"}`, reason: resources.ReasonInvalid},
		"what is right":              {patch: `{"power":"stopped"}`, labels: `{"tag":"x","tier":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := resources.NewOverride("web")
			o.TypedSpec().Patch, o.TypedSpec().Labels = resources.JSON(test.patch), resources.JSON(test.labels)

			err := guarded.Create(t.Context(), o)
			if test.reason == "" {
				require.NoError(t, err)

				_, err = guarded.UpdateWithConflicts(t.Context(), o.Metadata(), func(r resource.Resource) error {
					r.Spec().(*resources.OverrideSpec).Patch = resources.JSON(`{"cpus":0}`)

					return nil
				})
				requireReason(t, err, resources.ReasonInvalid)

				return
			}

			requireReason(t, err, test.reason)
		})
	}
}
