package trigger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/trigger"
	"gateway/internal/rig"
	"gateway/resources"
)

// vm declares a VM that is in a state.
func (w *world) vm(name, tier, status string) {
	w.Helper()

	vm := resources.NewVMConfig(name)
	vm.Metadata().Labels().Set("tier", tier)
	vm.TypedSpec().CloudInit = &resources.CloudInit{UserData: "password: secret"}
	resources.SetRevision(vm.Metadata(), 7)
	require.NoError(w, w.st.Create(w.Context(), vm))

	if status != "" {
		s := resources.NewVMStatus(name)
		s.TypedSpec().State = status
		require.NoError(w, w.st.Create(w.Context(), s, state.WithCreateOwner(resources.ControllerVM)))
	}
}

// last is what the newest entry of the journal says.
func (w *world) last() string {
	w.Helper()

	entries := w.journal()
	if len(entries) == 0 {
		return ""
	}

	return entries[len(entries)-1].Reason + ": " + entries[len(entries)-1].Message
}

// aimed takes a delivery in whose route has a target.
func (w *world) aimed(id string, target *resources.Target) {
	w.Helper()

	e := resources.NewWebhookEvent(id)
	e.TypedSpec().Event = resources.EventAttributes{
		ID: id, Source: resources.SourceWebhook, Name: "deploy", Received: time.Now(), Target: target,
	}
	e.TypedSpec().Data = []byte(`{}`)
	e.Metadata().Finalizers().Add(resources.FinalizerTrigger)
	require.NoError(w, w.st.Create(w.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))
	w.settle()
}

func TestATriggerLooksAtTheObjectsOfItsEvent(t *testing.T) {
	web := &resources.Target{Kind: "VM", Selector: &resources.Selector{Match: map[string]string{"tier": "web"}}}

	for name, tc := range map[string]struct {
		when   string
		target *resources.Target
		want   string
	}{
		"those that a selector chooses": {`objects.map(o, o.metadata.name) == ["db-2", "web-1", "web-2"]`, web, trigger.ReasonFired},
		"one by its name":               {`objects.size() == 1 && objects[0].metadata.revision == 7`, &resources.Target{Kind: "VM", Name: "web-1"}, trigger.ReasonFired},
		"one that is not there":         {`objects.size() == 0`, &resources.Target{Kind: "VM", Name: "none"}, trigger.ReasonFired},
		"none":                          {`objects.size() == 0`, nil, trigger.ReasonFired},
		"with their status":             {`objects.exists(o, has(o.status.state) && o.status.state == "stopped")`, web, trigger.ReasonNotFired},
		"that may not be there yet":     {`objects.filter(o, o.status == null).map(o, o.metadata.name) == ["web-2"]`, web, trigger.ReasonFired},
		"without their secrets":         {`objects.exists(o, o.spec.cloudInit.userData.contains("secret"))`, web, trigger.ReasonNotFired},
		"with the labels that count":    {`objects[0].metadata.labels.tier == "web"`, web, trigger.ReasonFired},
		"of another kind":               {`objects[0].kind == "Host" && objects[0].spec.uri == "sim://a"`, &resources.Target{Kind: "Host", Name: "a"}, trigger.ReasonFired},
		"a member that is missing":      {`objects[0].spec.nope == 1`, web, trigger.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.vm("web-1", "web", resources.StateRunning)
				w.vm("web-2", "web", "")
				w.vm("db-1", "db", resources.StateRunning)
				w.vm("db-2", "db", resources.StateRunning)

				over := resources.NewOverride("db-2")
				over.TypedSpec().Labels = resources.JSON(`{"tier":"web"}`)
				require.NoError(t, w.st.Create(t.Context(), over))

				host := resources.NewHost("a")
				host.TypedSpec().URI = "sim://a"
				require.NoError(t, w.st.Create(t.Context(), host))

				w.trigger("t", resources.SourceWebhook, tc.when, resources.TriggerAction{Publish: &resources.TriggerPublish{
					Subject: "seen.x", Data: resources.JSON(`{"names":"${objects.map(o, o.metadata.name)}"}`),
				}})
				w.aimed("e1", tc.target)
				require.Contains(t, w.last(), tc.want+": ")

				if tc.want == trigger.ReasonFired && tc.target == web {
					require.JSONEq(t, `{"names":["db-2","web-1","web-2"]}`, string(w.actions()[0].TypedSpec().Body))
				}
			})
		})
	}
}

func TestTooManyObjectsAreAFailureOfThoseWhoLook(t *testing.T) {
	run(t, func(w *world) {
		for i := range 1001 {
			w.vm(fmt.Sprintf("web-%d", i), "web", "")
		}

		w.trigger("looks", resources.SourceWebhook, `objects.size() > 0`, sync())
		w.trigger("minds", resources.SourceWebhook, `event.name == "deploy"`, sync())
		w.aimed("e1", &resources.Target{Kind: "VM", Selector: &resources.Selector{}})

		entries := w.journal()
		require.Len(t, entries, 2)

		for _, e := range entries {
			if e.Name == "looks" {
				require.Equal(t, "objects: the event names 1001 objects, an expression may look at 1000 (event e1)", e.Message)
			} else {
				require.Equal(t, trigger.ReasonFired, e.Reason)
			}
		}
	})
}

func TestADomainsEventNamesItsVM(t *testing.T) {
	run(t, func(w *world) {
		w.vm("web", "web", resources.StateCrashed)
		w.trigger("t", resources.SourceDomain, `objects.all(o, o.metadata.labels.tier == "web" && o.status.state == "crashed") && objects.size() == 1`, sync())

		e := resources.NewDomainEvent("web")
		e.TypedSpec().Event = resources.EventAttributes{ID: "d1", Source: resources.SourceDomain, Name: "web", Sequence: 1, Received: time.Now()}
		e.TypedSpec().VM, e.TypedSpec().Kind = "web", "crashed"
		require.NoError(t, w.st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceDomainEvents)))
		w.settle()
		require.Contains(t, w.last(), trigger.ReasonFired)
	})
}

// applied notes that the documents of an event were applied.
func (w *world) applied(id string, sequence uint64, names ...string) {
	w.Helper()

	result := resources.NewApplyResult(id)
	result.TypedSpec().Sequence, result.TypedSpec().Digest = sequence, "abc"

	for _, name := range names {
		result.TypedSpec().Objects = append(result.TypedSpec().Objects, resources.AppliedObject{Kind: "VM", Name: name})
	}

	require.NoError(w, w.st.Create(w.Context(), result, state.WithCreateOwner(resources.ControllerDocuments)))
	w.settle()
}

func TestObjectsOfAFileAreKnownWhenItsDocumentsAreApplied(t *testing.T) {
	run(t, func(w *world) {
		w.vm("web", "web", "")
		w.trigger("looks", resources.SourceFile, `objects.map(o, o.metadata.name) == ["web"]`, sync())
		w.trigger("minds", resources.SourceFile, ``, sync())

		e := resources.NewFileEvent("f1")
		e.TypedSpec().Event = resources.EventAttributes{ID: "e1", Source: resources.SourceFile, Name: "/d/a.yaml", Sequence: 2, Received: time.Now()}
		e.TypedSpec().Path, e.TypedSpec().Digest = "/d/a.yaml", "abc"
		require.NoError(t, w.st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceFiles)))
		rig.Settle(t, time.Minute)
		require.Len(t, w.journal(), 1, "who does not look does not wait")

		w.applied("f1", 2, "web", "refused")
		require.Len(t, w.journal(), 2)
		require.Len(t, w.actions(), 2)
		require.Contains(t, w.last(), trigger.ReasonFired)
	})
}

func TestObjectsOfADeliveryAreKnownWhenItIsApplied(t *testing.T) {
	for name, c := range map[string]struct {
		applies bool
		ahead   time.Duration
	}{"it is applied": {true, 0}, "it never is": {false, 0}, "the clock was set meanwhile": {true, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.vm("ci-1", "ci", "")
				w.trigger("looks", resources.SourceWebhook, `objects.exists(o, o.metadata.name == "ci-1")`, sync())

				e := resources.NewWebhookEvent("e1")
				e.TypedSpec().Event = resources.EventAttributes{ID: "e1", Source: resources.SourceWebhook, Name: "inbox", Received: time.Now().Add(-c.ahead)}
				e.TypedSpec().Apply = &resources.ApplyRule{Kinds: []string{"VM"}}
				e.Metadata().Finalizers().Add(resources.FinalizerTrigger)
				e.Metadata().Finalizers().Add(resources.FinalizerDocuments)
				require.NoError(t, w.st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))
				rig.Settle(t, time.Minute)
				require.Empty(t, w.journal())

				if c.applies {
					w.applied("e1", 0, "ci-1")
					require.NoError(t, w.st.RemoveFinalizer(t.Context(), e.Metadata(), resources.FinalizerDocuments))
					w.settle()
					require.Contains(t, w.last(), trigger.ReasonFired)

					return
				}

				rig.Settle(t, 15*time.Minute)
				require.Contains(t, w.last(), "have not been applied")
			})
		})
	}
}
