package trigger_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gateway/controllers/trigger"
	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

// world is a store with the trigger controller running over it.
type world struct {
	*testing.T
	store store.Store
	st    state.State
	stop  func()
}

// run runs the test in a bubble of virtual time.
func run(t *testing.T, test func(w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory("test")
		w := &world{T: t, store: s, st: s.State()}
		w.start()
		test(w)
		w.stop()
	})
}

func (w *world) start() {
	w.stop = rig.Run(w.T, w.st, trigger.New(trigger.Options{Journal: w.store.Journal(), Registry: prometheus.NewRegistry()}))
}

func (w *world) settle() { rig.Settle(w.T, time.Second) }

// trigger declares a trigger.
func (w *world) trigger(name, source, when string, do ...resources.TriggerAction) {
	w.Helper()

	tr := resources.NewTrigger(name)
	tr.TypedSpec().On, tr.TypedSpec().When, tr.TypedSpec().Do = resources.TriggerOn{Source: source}, when, do
	require.NoError(w, w.st.Create(w.Context(), tr))
	w.settle()
}

// webhook takes a delivery in, as the source does.
func (w *world) webhook(id, data string, hops int) {
	w.Helper()

	e := resources.NewWebhookEvent(id)
	spec := e.TypedSpec()
	spec.Event = resources.EventAttributes{
		ID: id, Source: resources.SourceWebhook, Name: "deploy", Type: "push", Received: time.Now(), Time: time.Now(), Hops: hops,
	}
	spec.Data = []byte(data)
	e.Metadata().Finalizers().Add(resources.FinalizerTrigger)
	require.NoError(w, w.st.Create(w.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))
	w.settle()
}

// tick writes a tick of a schedule, as the source does.
func (w *world) tick(sequence uint64) {
	w.Helper()

	empty := resources.NewCronTick("nightly")
	_, err := w.st.ModifyWithResult(w.Context(), empty, func(r resource.Resource) error {
		r.Spec().(*resources.CronTickSpec).Event = resources.EventAttributes{
			ID: fmt.Sprintf("tick-%d", sequence), Source: resources.SourceSchedule, Name: "nightly", Sequence: sequence, Received: time.Now(),
		}

		return nil
	}, state.WithUpdateOwner(resources.SourceSchedules))
	require.NoError(w, err)
	w.settle()
}

func (w *world) actions() []*resources.Action {
	w.Helper()

	var out []*resources.Action
	for _, r := range rig.List(w.T, w.st, resources.NewAction("").Metadata()) {
		out = append(out, r.(*resources.Action))
	}

	return out
}

// dropActions stands for documents, the sinks and retention: actions are executed and gone.
func (w *world) dropActions() {
	w.Helper()

	for _, a := range w.actions() {
		require.NoError(w, w.st.RemoveFinalizer(w.Context(), a.Metadata(), a.TypedSpec().Finalizer()))
		require.NoError(w, w.st.Destroy(w.Context(), a.Metadata(), state.WithDestroyOwner(a.Metadata().Owner())))
	}
}

func (w *world) journal() []store.Entry {
	w.Helper()

	entries, err := w.store.Journal().Query(w.Context(), store.Query{Classes: []store.Class{store.ClassTrigger}})
	require.NoError(w, err)

	return entries
}

func sync() resources.TriggerAction {
	return resources.TriggerAction{Sync: &resources.Target{Kind: "VM", Name: "web"}}
}

func TestATriggerFires(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("main-only", resources.SourceWebhook, `event.data.ref == "refs/heads/main"`,
			sync(),
			resources.TriggerAction{Patch: &resources.TriggerPatch{Kind: "VM", Name: "web", Merge: resources.JSON(`{"metadata":{"labels":{"tag":"${event.data.after}"}}}`)}},
			resources.TriggerAction{Publish: &resources.TriggerPublish{Subject: "deploys.${event.name}"}},
		)
		w.webhook("e1", `{"ref":"refs/heads/main","after":"abc"}`, 2)

		byVerb := map[string]*resources.Action{}
		for _, a := range w.actions() {
			byVerb[a.TypedSpec().Verb] = a
			require.Equal(t, "trigger:main-only", a.TypedSpec().By)
			require.Equal(t, "e1", a.TypedSpec().Cause)
			require.Equal(t, 2, a.TypedSpec().Hops)
		}

		require.Len(t, byVerb, 3)
		require.True(t, byVerb[resources.ActionSync].Metadata().Finalizers().Has(resources.FinalizerDocuments))
		require.True(t, byVerb[resources.ActionPublish].Metadata().Finalizers().Has(resources.FinalizerPublish))
		require.JSONEq(t, `{"metadata":{"labels":{"tag":"abc"}}}`, string(byVerb[resources.ActionPatch].TypedSpec().Body))
		require.Equal(t, "deploys.deploy", byVerb[resources.ActionPublish].TypedSpec().Subject)
		require.Contains(t, string(byVerb[resources.ActionPublish].TypedSpec().Body), `"id":"e1"`)

		event := rig.Get[*resources.WebhookEvent](t, w.st, resources.NewWebhookEvent("e1").Metadata())
		require.True(t, event.Metadata().Finalizers().Empty(), "the event is processed")
	})
}

func TestATriggerThatDoesNotFireSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		when, data, reason, message string
		hops                        int
	}{
		"the condition is false":               {`event.data.ref == "x"`, `{"ref":"y"}`, trigger.ReasonNotFired, "when is false", 0},
		"S80: a member is missing":             {`event.data.ref == "x"`, `{}`, trigger.ReasonFailed, "when: no such key: ref (event e1)", 0},
		"the event went through eight times":   {``, `{}`, trigger.ReasonTooManyHops, "8 times", 8},
		"a condition that does not compile":    {`event.nme == "x"`, `{}`, trigger.ReasonFailed, "undefined field 'nme'", 0},
		"a value that is neither true nor not": {`event.data.ref`, `{"ref":1}`, trigger.ReasonFailed, "not true or false", 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.trigger("t", resources.SourceWebhook, tc.when, sync())
				w.webhook("e1", tc.data, tc.hops)

				require.Empty(t, w.actions())

				entries := w.journal()
				require.Len(t, entries, 1)
				require.Equal(t, tc.reason, entries[0].Reason)
				require.Contains(t, entries[0].Message, tc.message)
				require.Equal(t, "e1", entries[0].EventID)
				require.Equal(t, "t", entries[0].Name)

				event := rig.Get[*resources.WebhookEvent](t, w.st, resources.NewWebhookEvent("e1").Metadata())
				require.True(t, event.Metadata().Finalizers().Empty(), "the event is processed all the same")
			})
		})
	}
}

func TestOneFailingTemplateStopsAllOfItsTrigger(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("t", resources.SourceWebhook, "", sync(), resources.TriggerAction{Publish: &resources.TriggerPublish{Subject: "x.${event.data.nope}"}})
		w.trigger("u", resources.SourceWebhook, "", sync())
		w.webhook("e1", `{}`, 0)

		require.Len(t, w.actions(), 1)
		require.Equal(t, "trigger:u", w.actions()[0].TypedSpec().By)
	})
}

func TestTriggersOfOtherSourcesAndNamesDoNotLook(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("a", resources.SourceSchedule, "", sync())

		other := resources.NewTrigger("b")
		other.TypedSpec().On = resources.TriggerOn{Source: resources.SourceWebhook, Name: "other"}
		other.TypedSpec().Do = []resources.TriggerAction{sync()}
		require.NoError(t, w.st.Create(t.Context(), other))

		w.webhook("e1", `{}`, 0)
		require.Empty(t, w.actions())
		require.Empty(t, w.journal())
	})
}

func TestAStateLikeEventFiresOnceForEachSequence(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("t", resources.SourceSchedule, "", sync())

		w.tick(1)
		require.Len(t, w.actions(), 1)
		w.dropActions()

		// The same tick again, as a finalizer on it would: nothing.
		tick := resources.NewCronTick("nightly").Metadata()
		require.NoError(t, w.st.AddFinalizer(t.Context(), tick, "x"))
		w.settle()
		require.Empty(t, w.actions())

		// A restart forgets what it handled, the journal does not.
		w.stop()
		w.start()
		w.settle()
		require.Empty(t, w.actions())

		w.tick(2)
		require.Len(t, w.actions(), 1)
	})
}

func TestEventsOfThePastLeadToNothing(t *testing.T) {
	run(t, func(w *world) {
		w.tick(1)
		w.trigger("later", resources.SourceSchedule, "", sync())
		w.stop()
		w.start()
		w.settle()
		require.Empty(t, w.actions(), "the trigger came after the tick")

		w.tick(2)
		require.Len(t, w.actions(), 1)
		w.dropActions()

		w.stop()
		rig.Settle(t, 30*24*time.Hour) // the journal does not reach so far back
		w.start()
		w.settle()
		require.Empty(t, w.actions(), "the tick is a month old")
	})
}

func TestACrashBeforeTheMarkRepeatsNothing(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("t", resources.SourceWebhook, "", sync())
		w.webhook("e1", `{}`, 0)
		require.Len(t, w.actions(), 1)
		w.dropActions()

		// As if the process had stopped before the finalizer was off.
		require.NoError(t, w.st.AddFinalizer(t.Context(), resources.NewWebhookEvent("e1").Metadata(), resources.FinalizerTrigger))
		w.stop()
		w.start()
		w.settle()

		require.Empty(t, w.actions())
		require.Len(t, w.journal(), 1)

		event := rig.Get[*resources.WebhookEvent](t, w.st, resources.NewWebhookEvent("e1").Metadata())
		require.True(t, event.Metadata().Finalizers().Empty())
	})
}

func TestAChangedTriggerIsCompiledAgain(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("t", resources.SourceWebhook, "false", sync())
		w.webhook("e1", `{}`, 0)
		require.Empty(t, w.actions())

		_, err := w.st.ModifyWithResult(t.Context(), resources.NewTrigger("t"), func(r resource.Resource) error {
			r.Spec().(*resources.TriggerSpec).When = "true"

			return nil
		})
		require.NoError(t, err)

		w.webhook("e2", `{}`, 0)
		require.Len(t, w.actions(), 1)
	})
}

func TestDomainEventsAreSeenWithTheirFields(t *testing.T) {
	run(t, func(w *world) {
		w.trigger("t", resources.SourceDomain, `event.data.kind == "crashed" && event.data.host == "a"`, sync())

		e := resources.NewDomainEvent("web")
		*e.TypedSpec() = resources.DomainEventSpec{
			Event: resources.EventAttributes{ID: "d1", Source: resources.SourceDomain, Name: "web", Sequence: 1, Received: time.Now()},
			Host:  "a", Domain: "web", VM: "web", Kind: "crashed", Epoch: "x",
		}
		require.NoError(t, w.st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceDomainEvents)))
		w.settle()
		require.Len(t, w.actions(), 1, w.journal())
	})
}
