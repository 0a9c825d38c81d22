package intake_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

func TestAnEventKeepsTheFinalizerThatATriggerWaitsFor(t *testing.T) {
	for name, test := range map[string]struct {
		source, name string
		kept         bool
	}{
		"of its source and name":     {resources.SourceWebhook, "deploy", true},
		"of every name":              {resources.SourceWebhook, "", true},
		"of another name":            {resources.SourceWebhook, "other", false},
		"of another kind of source":  {resources.SourceSubscription, "deploy", false},
		"where there is no trigger ": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			st := store.NewMemory("test").State()

			if test.source != "" {
				trigger := resources.NewTrigger("t")
				trigger.TypedSpec().On.Source, trigger.TypedSpec().On.Name = test.source, test.name
				require.NoError(t, st.Create(t.Context(), trigger))
			}

			event := resources.NewWebhookEvent("e")
			event.Metadata().Finalizers().Add(resources.FinalizerDocuments)
			event.Metadata().Finalizers().Add(resources.FinalizerTrigger)
			require.NoError(t, intake.Untriggered(t.Context(), st, event, resources.SourceWebhook, "deploy"))
			require.Equal(t, test.kept, event.Metadata().Finalizers().Has(resources.FinalizerTrigger))
			require.True(t, event.Metadata().Finalizers().Has(resources.FinalizerDocuments))
		})
	}
}
