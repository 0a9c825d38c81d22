package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"gateway/api"
	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// bridge is the operations on a store in memory, with a broker that is made up.
type bridge struct {
	*api.Operations

	t     *testing.T
	store store.Store
	nats  *fakeBroker
	by    api.Caller
}

// fakeBroker holds what the streams would.
type fakeBroker struct {
	published []broker.Published
	letters   []broker.DeadLetter
	err       error
}

func (f *fakeBroker) Published(context.Context, string, string, time.Time, int) ([]broker.Published, error) {
	return f.published, f.err
}

func (f *fakeBroker) DeadLetters(context.Context, int) ([]broker.DeadLetter, error) {
	return f.letters, f.err
}

func (f *fakeBroker) PurgeDead(_ context.Context, taken func(broker.DeadLetter) bool) (purged int, err error) {
	var kept []broker.DeadLetter

	for _, l := range f.letters {
		if taken(l) {
			purged++
		} else {
			kept = append(kept, l)
		}
	}

	f.letters = kept

	return purged, f.err
}

func newBridge(t *testing.T) *bridge {
	t.Helper()

	b := &bridge{t: t, store: store.NewMemory("home"), nats: &fakeBroker{}}
	b.by = api.NewCaller(resources.Origin{Source: resources.OriginAPI}, nil, "user:ada (pid 7)")
	b.Operations = api.NewOperations(api.SocketOptions{
		Store: b.store, Admission: store.NewAdmission(config.Default().Policy, b.store.Journal()), Pacer: store.NewPacer(0), Broker: b.nats,
		Logger: zaptest.NewLogger(t),
	})

	return b
}

// create puts a resource into the state.
func (b *bridge) create(r resource.Resource) {
	b.t.Helper()
	require.NoError(b.t, b.store.State().Create(b.t.Context(), r))
}

// webhook declares one.
func (b *bridge) webhook(name string, change func(*resources.WebhookSpec)) {
	b.t.Helper()

	hook := resources.NewWebhook(name)
	if change != nil {
		change(hook.TypedSpec())
	}

	b.create(hook)
}

// record appends an event to the journal as its source does.
func (b *bridge) record(class store.Class, a resources.EventAttributes, data, kept string) {
	b.t.Helper()

	a.Bytes, a.Digest = int64(len(data)), resources.Digest([]byte(data))
	attributes, err := json.Marshal(a)
	require.NoError(b.t, err)

	e := store.Entry{Class: class, Source: a.Source, Name: a.Name, EventID: a.ID, Object: a.Target.String(), Attributes: attributes, Data: []byte(kept)}
	if class == store.ClassDead {
		e.Reason, e.Message = resources.ReasonInvalid, "spec.cpus: 0, at least 1 is needed"
	} else {
		e.Key = a.DeliveryID
	}

	require.NoError(b.t, b.store.Journal().Append(e))
}

func (b *bridge) entries(q store.Query) []store.Entry {
	b.t.Helper()

	entries, err := b.store.Journal().Query(b.t.Context(), q)
	require.NoError(b.t, err)

	return entries
}

func delivery(id string) resources.EventAttributes {
	return resources.EventAttributes{
		ID: id, Source: resources.SourceWebhook, Name: "deploy", Type: "com.github.push", Subject: "refs/heads/main", DeliveryID: "d-" + id,
		Headers: map[string]string{"x-github-event": "push"}, Time: time.Now().UTC(), Peer: "10.0.0.9",
		Target: &resources.Target{Kind: "VM", Name: "old"},
	}
}

func TestADeliveryIsReplayedAsANewEventWithWhatItsDeclarationSaysNow(t *testing.T) {
	b := newBridge(t)
	b.webhook("deploy", func(s *resources.WebhookSpec) {
		s.Target, s.Publish = &resources.Target{Kind: "VM", Name: "web-1"}, "full"
	})
	b.record(store.ClassEvent, delivery("e1"), `{"ref":"main"}`, `{"ref":"main"}`)

	done, err := b.Replay(t.Context(), b.by, "e1")
	require.NoError(t, err)
	require.Equal(t, "e1", done.ID)
	require.NotEqual(t, "e1", done.As)
	require.Equal(t, "VM/web-1", done.Target.String())

	r, err := b.store.State().Get(t.Context(), resources.NewWebhookEvent(done.As).Metadata())
	require.NoError(t, err)

	event := r.(*resources.WebhookEvent)
	require.Equal(t, resources.SourceWebhooks, event.Metadata().Owner(), "it is retained and destroyed as its source's own")
	require.Equal(t, "e1", resources.CauseOf(event.Metadata()))
	require.JSONEq(t, `{"ref":"main"}`, string(event.TypedSpec().Data))
	require.Equal(t, "com.github.push", event.TypedSpec().Event.Type)
	require.Equal(t, "full", event.TypedSpec().Event.Publish)
	require.Empty(t, event.TypedSpec().Event.DeliveryID)
	require.True(t, event.Metadata().Finalizers().Has(resources.FinalizerTrigger))
	require.False(t, event.Metadata().Finalizers().Has(resources.FinalizerDocuments))

	again := b.entries(store.Query{EventID: done.As})
	require.Len(t, again, 1)

	before, ok := api.ReplayedEvent(&again[0])
	require.True(t, ok)
	require.Equal(t, "e1", before)

	commands := b.entries(store.Query{Classes: []store.Class{store.ClassCommand}})
	require.Len(t, commands, 1)
	require.Equal(t, "replay", commands[0].Name)
	require.Equal(t, "user:ada (pid 7)", commands[0].Peer)

	// A replay can be replayed.
	third, err := b.Replay(t.Context(), b.by, done.As)
	require.NoError(t, err)
	require.NotEqual(t, done.As, third.As)
}

func TestAMessageIsReplayedWithItsSubject(t *testing.T) {
	b := newBridge(t)
	b.create(resources.NewSubscription("commands"))

	a := delivery("m1")
	a.Source, a.Name, a.Subject, a.Sequence = resources.SourceSubscription, "commands", "ops.vm.restart", 7
	b.record(store.ClassEvent, a, "hello", "hello")

	done, err := b.Replay(t.Context(), b.by, "m1")
	require.NoError(t, err)

	r, err := b.store.State().Get(t.Context(), resources.NewMessageEvent(done.As).Metadata())
	require.NoError(t, err)
	require.Equal(t, "ops.vm.restart", r.(*resources.MessageEvent).TypedSpec().NATSSubject)
	require.Equal(t, resources.SourceSubscriptions, r.Metadata().Owner())
	require.Equal(t, uint64(7), r.(*resources.MessageEvent).TypedSpec().Event.Sequence, "what was sent later and waits is in force in the end")
}

func TestStateLikeEventsAreReplayedByTheirTarget(t *testing.T) {
	b := newBridge(t)
	schedule := resources.NewSchedule("nightly")
	schedule.TypedSpec().Target = &resources.Target{Kind: "VM", Name: "web-1"}
	b.create(schedule)

	b.record(store.ClassEvent, resources.EventAttributes{ID: "t1", Source: resources.SourceSchedule, Name: "nightly"}, "", "")
	b.record(store.ClassEvent, resources.EventAttributes{ID: "d1", Source: resources.SourceDomain, Name: "web-2", Target: &resources.Target{Kind: "VM", Name: "web-2"}}, "", "")
	b.record(store.ClassEvent, resources.EventAttributes{ID: "f1", Source: resources.SourceFile, Name: "/docs/a.yaml"}, "", "")

	for id, target := range map[string]string{"t1": "VM/web-1", "d1": "VM/web-2"} {
		done, err := b.Replay(t.Context(), b.by, id)
		require.NoError(t, err)
		require.Empty(t, done.As)
		require.Equal(t, target, done.Target.String())
	}

	kind, _ := resources.KindByName("Resync")
	resyncs, err := b.store.State().List(t.Context(), kind.List())
	require.NoError(t, err)
	require.Len(t, resyncs.Items, 2)

	_, err = b.Replay(t.Context(), b.by, "f1")
	require.ErrorContains(t, err, "the file itself is what counts")
}

func TestWhatCanNotBeReplayedSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*bridge)
		want    string
	}{
		"an unknown event": {func(*bridge) {}, `event "e1" in the journal, which keeps 24 h: not found`},
		"data that was cut": {func(b *bridge) {
			b.webhook("deploy", nil)
			b.record(store.ClassEvent, delivery("e1"), "all of it", "all")
		}, "of the 9 bytes of event e1 only 3 are kept"},
		"data that was to be applied": {func(b *bridge) {
			b.webhook("deploy", func(s *resources.WebhookSpec) { s.Apply = &resources.ApplyRule{Kinds: []string{"VM"}} })
			b.record(store.ClassEvent, delivery("e1"), "kind: VM", "")
		}, "it may hold secrets"},
		"a webhook that is gone": {func(b *bridge) {
			b.record(store.ClassEvent, delivery("e1"), "x", "x")
		}, `the webhook "deploy" of event e1 is not declared any more`},
		"GitHub's ping": {func(b *bridge) {
			b.webhook("deploy", nil)
			a := delivery("e1")
			a.Headers["x-github-event"] = "ping"
			b.record(store.ClassEvent, a, "{}", "{}")
		}, "leads to nothing"},
		"a message that still is no JSON": {func(b *bridge) {
			s := resources.NewSubscription("deploy")
			s.TypedSpec().Content = "json"
			b.create(s)

			a := delivery("e1")
			a.Source = resources.SourceSubscription
			b.record(store.ClassDead, a, "{", "{")
		}, "not acceptable JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			tc.prepare(b)

			_, err := b.Replay(t.Context(), b.by, "e1")
			require.ErrorContains(t, err, tc.want)
			require.Empty(t, b.entries(store.Query{Classes: []store.Class{store.ClassCommand}}))

			list, err := b.store.State().List(t.Context(), resources.NewWebhookEvent("").Metadata())
			require.NoError(t, err)
			require.Empty(t, list.Items)
		})
	}
}

// inbox is a route whose documents were refused twice.
func inbox(b *bridge) {
	b.webhook("deploy", func(s *resources.WebhookSpec) { s.Apply = &resources.ApplyRule{Kinds: []string{"VM"}} })

	for _, id := range []string{"e1", "e2"} {
		b.record(store.ClassEvent, delivery(id), "kind: VM", "")
		b.record(store.ClassDead, delivery(id), "kind: VM", "kind: VM")
	}
}

func TestDeadLettersAreReplayedAndTheirRedeliveryIsProcessedAgain(t *testing.T) {
	b := newBridge(t)
	inbox(b)

	_, seen := b.store.Journal().Seen(resources.SourceWebhook, "deploy", "d-e1")
	require.True(t, seen)

	done, err := b.Redeliver(t.Context(), b.by, api.LettersRequest{ID: "e1"})
	require.NoError(t, err)
	require.Len(t, done.Items, 1)

	r, err := b.store.State().Get(t.Context(), resources.NewWebhookEvent(done.Items[0].As).Metadata())
	require.NoError(t, err)
	require.True(t, r.Metadata().Finalizers().Has(resources.FinalizerDocuments), "it is applied")
	require.Equal(t, "kind: VM", string(r.(*resources.WebhookEvent).TypedSpec().Data))

	_, seen = b.store.Journal().Seen(resources.SourceWebhook, "deploy", "d-e1")
	require.False(t, seen)

	for _, e := range b.entries(store.Query{EventID: done.Items[0].As}) {
		require.Empty(t, e.Data, "what is applied is not kept")
	}

	letters, err := b.Letters(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, letters.Items, 1)
	require.Equal(t, "e2", letters.Items[0].EventID)

	_, err = b.Redeliver(t.Context(), b.by, api.LettersRequest{ID: "e1"})
	require.ErrorContains(t, err, "not found")

	done, err = b.Redeliver(t.Context(), b.by, api.LettersRequest{All: true})
	require.NoError(t, err)
	require.Len(t, done.Items, 1)
}

func TestDeadLettersAreListedOnceFromTheJournalAndTheStream(t *testing.T) {
	b := newBridge(t)
	inbox(b)

	dead := b.entries(store.Query{Classes: []store.Class{store.ClassDead}})
	b.nats.letters = []broker.DeadLetter{
		{MessageID: "e0/1", EventID: "e0", Source: "webhook", Name: "deploy", Reason: "Invalid: long ago", Time: time.Now().Add(-72 * time.Hour)},
		{MessageID: "e1/2", EventID: "e1", Source: "webhook", Name: "deploy", Reason: "Invalid: x", Time: dead[0].Time},
	}
	require.EqualValues(t, 2, dead[0].Number)

	letters, err := b.Letters(t.Context(), "webhook", "")
	require.NoError(t, err)
	require.Len(t, letters.Items, 3)
	require.Equal(t, []bool{true, true, false}, []bool{letters.Items[0].Published, letters.Items[1].Published, letters.Items[2].Published})
	require.Equal(t, []bool{false, true, true}, []bool{letters.Items[0].InJournal, letters.Items[1].InJournal, letters.Items[2].InJournal})
	require.Equal(t, "long ago", letters.Items[0].Message)

	none, err := b.Letters(t.Context(), "subscription", "")
	require.NoError(t, err)
	require.Empty(t, none.Items)

	letter, err := b.Letter(t.Context(), "e1")
	require.NoError(t, err)
	require.Equal(t, resources.ReasonInvalid, letter.Reason)
	require.Equal(t, "com.github.push", letter.Type)
	require.Empty(t, letter.Data, "what was to be applied may hold secrets")

	_, err = b.Letter(t.Context(), "e9")
	require.ErrorContains(t, err, "not found")

	b.nats.err = broker.ErrAway
	letters, err = b.Letters(t.Context(), "", "")
	require.NoError(t, err)
	require.Equal(t, broker.ErrAway.Error(), letters.NATS)
}

func TestAPurgeTakesLettersOutOfSightForGood(t *testing.T) {
	b := newBridge(t)
	inbox(b)
	b.nats.letters = []broker.DeadLetter{
		{MessageID: "e1/2", EventID: "e1", Source: "webhook", Name: "deploy"}, {MessageID: "e2/4", EventID: "e2", Source: "webhook", Name: "deploy"},
	}

	_, err := b.Purge(t.Context(), b.by, api.LettersRequest{})
	require.ErrorContains(t, err, "or all of them")
	_, err = b.Purge(t.Context(), b.by, api.LettersRequest{ID: "e9"})
	require.ErrorContains(t, err, "not found")

	done, err := b.Purge(t.Context(), b.by, api.LettersRequest{ID: "e1"})
	require.NoError(t, err)
	require.Equal(t, api.Purged{Letters: 1, Published: 1}, done)

	b.nats.err = errors.New("away")
	done, err = b.Purge(t.Context(), b.by, api.LettersRequest{All: true})
	require.NoError(t, err)
	require.Equal(t, "away", done.NATS)

	// The stream still has it, because it could not be asked; it is out of sight all the same.
	b.nats.err, b.nats.letters = nil, []broker.DeadLetter{{MessageID: "e2/4", EventID: "e2", Source: "webhook", Name: "deploy"}}
	letters, err := b.Letters(t.Context(), "", "")
	require.NoError(t, err)
	require.Empty(t, letters.Items)

	// What dies afterwards is seen again.
	b.record(store.ClassDead, delivery("e2"), "kind: VM", "kind: VM")
	letters, err = b.Letters(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, letters.Items, 1)
}
