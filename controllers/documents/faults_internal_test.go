package documents

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gateway/resources"
)

func TestWhatIsWrongWithAFileIsLoggedOnceAndItsEndToo(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	logger := zap.New(core)

	refused := resources.AppliedObject{Kind: "VM", Name: "a", Outcome: resources.OutcomeRefused, Message: "no"}
	fine := resources.AppliedObject{Kind: "VM", Name: "b", Outcome: resources.OutcomeCreated}

	var last *resources.ApplyResult

	for _, step := range []struct {
		result resources.ApplyResultSpec
		want   string
	}{
		{resources.ApplyResultSpec{Objects: []resources.AppliedObject{fine}}, ""},
		{resources.ApplyResultSpec{Error: "a.yaml:1:1: x\na.yaml:2:1: y", Objects: []resources.AppliedObject{fine}}, "warn a.yaml:1:1: x; a.yaml:2:1: y"},
		{resources.ApplyResultSpec{Error: "a.yaml:1:1: x\na.yaml:2:1: y", Objects: []resources.AppliedObject{fine}}, ""},
		{resources.ApplyResultSpec{Objects: []resources.AppliedObject{refused, fine}}, "warn VM/a: no"},
		{resources.ApplyResultSpec{Error: strings.TrimSuffix(strings.Repeat("f\n", 9), "\n")}, "warn f; f; f; f; f; and 4 more"},
		{resources.ApplyResultSpec{Objects: []resources.AppliedObject{fine}}, "info"},
	} {
		logFaults(logger, "/d/a.yaml", last, &step.result)

		last = resources.NewApplyResult("x")
		*last.TypedSpec() = step.result

		got := ""

		for _, entry := range logs.TakeAll() {
			require.Equal(t, "/d/a.yaml", entry.ContextMap()["file"])

			reason, _ := entry.ContextMap()["reason"].(string)
			got = strings.TrimSpace(entry.Level.String() + " " + reason)
		}

		require.Equal(t, step.want, got)
	}
}
