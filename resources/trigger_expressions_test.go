package resources_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestCaseS80ExpressionsAreCheckedWhereTheyAreDeclared(t *testing.T) {
	sync := []resources.TriggerAction{{Sync: &resources.Target{Kind: "VM", Name: "web"}}}

	for name, tc := range map[string]struct {
		spec resources.TriggerSpec
		want string
	}{
		"a condition with a type error": {
			resources.TriggerSpec{When: `event.data.ref == "x" && event.nme == "y"`, Do: sync},
			"spec.when: column 31: undefined field 'nme'",
		},
		"a condition that is none": {
			resources.TriggerSpec{When: `event.id`, Do: sync},
			"spec.when: column 1: the expression is a string, not true or false",
		},
		"a template in a patch": {
			resources.TriggerSpec{Do: []resources.TriggerAction{{Patch: &resources.TriggerPatch{
				Kind: "VM", Name: "web", Merge: resources.JSON(`{"metadata":{"labels":{"tag":"v${event.nme}"}}}`),
			}}}},
			"spec.do[0].patch.merge.metadata.labels.tag: column 9: undefined field 'nme'",
		},
		"a subject": {
			resources.TriggerSpec{Do: []resources.TriggerAction{{Publish: &resources.TriggerPublish{Subject: "deploys.${event.name"}}}},
			"spec.do[0].publish.subject: column 9: ${ without its }",
		},
		"nothing wrong": {
			resources.TriggerSpec{When: `has(event.data.ref)`, Do: sync}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spec.On.Source = resources.SourceWebhook
			errs := tc.spec.Validate()

			if tc.want == "" {
				require.Empty(t, errs)
			} else {
				require.EqualError(t, errs, tc.want)
			}
		})
	}
}
