package documents_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

const webJSON = `{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"ci-web"},"spec":{"cpus":2}}`

func TestASendersDocumentsAreApplied(t *testing.T) {
	vms := []string{"VM"}

	for name, tc := range map[string]struct {
		data string
		rule resources.ApplyRule
	}{
		"YAML as the whole body":     {document("ci-web", "cpus: 2"), resources.ApplyRule{Kinds: vms}},
		"JSON as the whole body":     {webJSON, resources.ApplyRule{Kinds: vms}},
		"an array as the whole body": {"[" + webJSON + "]", resources.ApplyRule{Kinds: vms}},
		"an object at a path":        {`{"a":{"b":` + webJSON + `}}`, resources.ApplyRule{Kinds: vms, Path: "a.b"}},
		"an array at a path":         {`{"a":[` + webJSON + `]}`, resources.ApplyRule{Kinds: vms, Path: "a"}},
		"an element of an array":     {`{"a":[0,` + webJSON + `]}`, resources.ApplyRule{Kinds: vms, Path: "a.1"}},
		"text at a path": {
			`{"data":"apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: ci-web}\nspec: {cpus: 2}\n"}`,
			resources.ApplyRule{Kinds: vms, Path: "data"},
		},
		"a name that the pattern allows": {webJSON, resources.ApplyRule{Kinds: vms, Names: "ci-*"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				result := w.webhook("e1", tc.data, tc.rule)
				require.Empty(t, result.Error)
				require.Equal(t, resources.OutcomeCreated, result.Objects[0].Outcome)
				require.Equal(t, 2, w.vm("ci-web").TypedSpec().CPUs)
				require.Equal(t, "webhook:inbox", resources.OriginOf(w.vm("ci-web").Metadata()).String())
				require.Equal(t, "e1", resources.CauseOf(w.vm("ci-web").Metadata()))
			})
		})
	}
}

func TestWhatIsWrongWithAMessageIsFinal(t *testing.T) {
	vms := []string{"VM"}

	for name, tc := range map[string]struct {
		data, reason, message string
		rule                  resources.ApplyRule
	}{
		"no documents":            {`{`, resources.ReasonInvalid, "webhook:inbox:2:1:", resources.ApplyRule{Kinds: vms}},
		"a path that leads out":   {`{"a":1}`, resources.ReasonInvalid, "the data has no a.b", resources.ApplyRule{Kinds: vms, Path: "a.b"}},
		"a path into no JSON":     {`kind: VM`, resources.ReasonInvalid, "not JSON", resources.ApplyRule{Kinds: vms, Path: "a"}},
		"one of two is wrong":     {document("a", "") + document("b", "cpus: 0"), resources.ReasonInvalid, "cpus", resources.ApplyRule{Kinds: vms}},
		"a kind that is not his":  {"apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec: {uri: \"sim://a\"}\n", resources.ReasonPolicyRefused, "may not declare a Host", resources.ApplyRule{Kinds: vms}},
		"a name that is not his":  {document("web", ""), resources.ReasonPolicyRefused, "ci-*", resources.ApplyRule{Kinds: vms, Names: "ci-*"}},
		"V7: a name that is none": {`{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"../x"}}`, resources.ReasonInvalid, "is not a name", resources.ApplyRule{Kinds: vms}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				require.NoError(t, w.journal.Append(store.Entry{
					Class: store.ClassEvent, Source: resources.SourceWebhook, Name: "inbox", Key: "delivery-e1", EventID: "e1",
				}))

				result := w.webhook("e1", tc.data, tc.rule)
				require.Contains(t, result.Error, tc.message)
				require.Empty(t, w.vms())

				dead := w.entries(store.ClassDead)
				require.Len(t, dead, 1)
				require.Equal(t, tc.reason, dead[0].Reason)
				require.Equal(t, "e1", dead[0].EventID)
				require.Equal(t, tc.data, string(dead[0].Data))

				_, seen := w.journal.Seen(resources.SourceWebhook, "inbox", "delivery-e1")
				require.False(t, seen, "the sender can send it again")
			})
		})
	}
}

func TestCaseV7NamesAreRefusedAlikeInFilesAndMessages(t *testing.T) {
	for _, name := range []string{`../x`, `a/b`, `.`, `é`, `a\u0000b`, strings.Repeat("a", 64), `Web`, ``} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				text := `{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"` + name + `"}}`
				result := w.webhook("e1", text, resources.ApplyRule{Kinds: []string{"VM"}})
				w.scan(map[string]string{"a.yaml": text})

				require.NotEmpty(t, result.Error)
				require.Equal(t, strings.TrimPrefix(result.Error, "webhook:inbox"), strings.TrimPrefix(w.result("a.yaml").Error, w.path("a.yaml")))
				require.Empty(t, w.vms())
			})
		})
	}
}

func TestASenderTakesAwayOnlyWhatItMay(t *testing.T) {
	remove := strings.Replace(document("web", ""), "{name: web}", `{name: web, annotations: {delete: "true"}}`, 1)
	may := resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}

	run(t, func(w *world) {
		w.webhook("e1", document("web", ""), may)
		require.Equal(t, resources.OutcomeDeleted, w.webhook("e2", remove, may).Objects[0].Outcome)
		require.Empty(t, w.vms())

		w.webhook("e3", document("web", ""), may)
		w.webhook("e4", remove, resources.ApplyRule{Kinds: []string{"VM"}})
		require.Equal(t, []string{"web"}, w.vms(), "without apply.delete it is an annotation like others")

		w.webhook("e5", document("web", "protect: true"), may)
		require.Contains(t, w.webhook("e6", remove, may).Error, "spec.protect", "V83")
		require.Equal(t, resource.PhaseRunning, w.vm("web").Metadata().Phase())
	})
}

func TestAMessageWaitsForAnObjectInTeardown(t *testing.T) {
	run(t, func(w *world) {
		rule := resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}
		w.webhook("e1", document("web", "cpus: 1"), rule)
		w.leave("web")

		time.AfterFunc(time.Second, func() { w.letGo("web") })
		require.Empty(t, w.webhook("e2", document("web", "cpus: 2"), rule).Error)
		require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
		require.Empty(t, w.entries(store.ClassDead))
	})
}

// What is sent later is in force in the end, also where the earlier had to wait, and across a restart.
func TestAMessageThatWaitsIsNotOvertaken(t *testing.T) {
	for name, restart := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				rule := resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}
				w.webhook("e1", document("web", "cpus: 1"), rule)
				w.leave("web")

				remove := "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: web, annotations: {delete: \"true\"}}\nspec: {}\n"
				w.deliver("e3", document("web", "cpus: 2"), rule)
				w.deliver("e2", remove, rule)
				rig.Settle(t, 3*time.Second)

				if restart {
					w.stop()
					w.start()
				}

				rig.Settle(t, 3*time.Second)
				w.letGo("web")
				rig.Settle(t, 5*time.Second)
				require.Empty(t, w.vms(), "the deletion was sent last")
				require.Empty(t, w.entries(store.ClassDead))
			})
		})
	}
}

// Workers look at the messages of a burst in any order.
func TestAMessageIsNotOvertakenByOneThatComesRightAfterIt(t *testing.T) {
	run(t, func(w *world) {
		now := time.Now()

		for i := range 20 {
			for version := range 3 {
				e := resources.NewMessageEvent(fmt.Sprintf("e%d-%d", i, 9-version))
				spec := e.TypedSpec()
				spec.Event = resources.EventAttributes{
					ID: e.Metadata().ID(), Source: resources.SourceSubscription, Name: "commands", Received: now, Sequence: uint64(version + 1),
				}
				spec.Data = []byte(document(fmt.Sprintf("web-%d", i), fmt.Sprintf("cpus: %d", version+1)))
				spec.Apply = &resources.ApplyRule{Kinds: []string{"VM"}}

				e.Metadata().Finalizers().Add(resources.FinalizerDocuments)
				require.NoError(t, w.st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceSubscriptions)))
			}
		}

		rig.Settle(t, 10*time.Second)

		for i := range 20 {
			require.Equal(t, 3, w.vm(fmt.Sprintf("web-%d", i)).TypedSpec().CPUs)
		}
	})
}

func TestACrashAfterTheResultAppliesNothingAgain(t *testing.T) {
	run(t, func(w *world) {
		rule := resources.ApplyRule{Kinds: []string{"VM"}}
		w.webhook("e1", document("web", "cpus: 1"), rule)
		w.webhook("e2", document("web", "cpus: 2"), rule)

		require.NoError(t, w.st.AddFinalizer(t.Context(), resources.NewWebhookEvent("e1").Metadata(), resources.FinalizerDocuments))
		w.stop()
		w.start()
		w.settle()
		require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
	})
}

func TestResultsOfMessagesGoWithThem(t *testing.T) {
	run(t, func(w *world) {
		w.webhook("e1", document("web", ""), resources.ApplyRule{Kinds: []string{"VM"}})
		rig.Settle(t, 10*time.Second)
		require.Empty(t, rig.List(t, w.st, resources.NewWebhookEvent("").Metadata()))
		require.Empty(t, rig.List(t, w.st, resources.NewApplyResult("").Metadata()))

		// One that went while the process was stopped.
		w.stop()

		left := resources.NewApplyResult("e0")
		left.TypedSpec().Origin = "webhook:inbox"
		require.NoError(t, left.Metadata().SetOwner(resources.ControllerDocuments))
		require.NoError(t, w.st.Create(t.Context(), left, createdByDocuments))
		w.start()
		w.settle()
		require.Empty(t, rig.List(t, w.st, resources.NewApplyResult("").Metadata()))
	})
}
