package subscriptions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

func TestWhereADurableConsumerStartsIsWhatTheDocumentSays(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.publish("ops.a", "1")
	r.publish("ops.a", "2")
	r.start()
	r.declare("every", "u1", all)
	r.declare("last", "u2", func(s *resources.SubscriptionSpec) { s.Deliver.Policy = "last" })
	r.declare("hour", "u3", func(s *resources.SubscriptionSpec) {
		s.Deliver = resources.Deliver{Policy: "since", Since: resources.Duration(time.Hour)}
	})
	r.declare("new", "u4", func(*resources.SubscriptionSpec) {})

	for _, name := range []string{"every", "last", "hour", "new"} {
		r.waitReason(name, resources.ReasonReady)
	}

	r.publish("ops.a", "3")
	r.waitEvents(3 + 2 + 3 + 1)

	got := map[string]string{}
	for _, e := range r.events() {
		got[e.TypedSpec().Event.Name] += string(e.TypedSpec().Data)
	}

	for name, want := range map[string]string{"every": "123", "last": "23", "hour": "123", "new": "3"} {
		letters := strings.Split(got[name], "")
		slices.Sort(letters)
		require.Equal(t, want, strings.Join(letters, ""), name)
	}
}

func TestADocumentThatChangesOrGoesTakesItsConsumerWithIt(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.stream("NEXT", "next.>")
	r.start()
	r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
	r.waitReason("commands", resources.ReasonReady)
	r.publish("ops.a", "1")
	r.waitEvents(1)

	r.change("commands", 2, func(s *resources.SubscriptionSpec) { s.Subject, s.Stream = "next.>", "NEXT" })
	require.Eventually(t, func() bool { return r.consumer("OPS", "commands") == nil && r.consumer("NEXT", "commands") != nil }, soon, tick)
	require.Eventually(t, func() bool { return r.status("commands").ObservedRevision == 2 }, soon, tick)
	r.publish("next.a", "2")
	r.publish("ops.a", "not listened to")
	r.waitEvents(2)

	r.remove("commands")
	require.Eventually(t, func() bool { return r.consumer("NEXT", "commands") == nil }, soon, tick)
	require.Eventually(t, func() bool { return r.status("commands").ObservedRevision == 0 }, soon, tick, "the status is gone")
	r.publish("next.a", "not listened to")
	require.Never(t, func() bool { return len(r.events()) > 2 }, 200*time.Millisecond, tick)
}

func TestAConsumerWhoseDocumentWentWhileNATSWasAwayGoesLater(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
	r.waitReason("commands", resources.ReasonReady)
	r.embedded.Stop()
	r.remove("commands")
	require.Never(t, func() bool { return len(r.status("commands").Streams) == 0 }, 1500*time.Millisecond, tick)
	r.stop()
	r.startServer()
	r.start() // another process
	require.Eventually(t, r.conn.IsConnected, soon, tick)
	require.Eventually(t, func() bool { return r.consumer("OPS", "commands") == nil }, soon, tick)
	require.Eventually(t, func() bool { return len(r.status("commands").Streams) == 0 }, soon, tick)
}

func TestAChangedDocumentGoesOnWhereItWasAndANewOneOfItsNameDoesNot(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
	r.waitReason("commands", resources.ReasonReady)
	r.stop()
	r.publish("ops.a", "while the gateway was away")
	r.change("commands", 2, func(s *resources.SubscriptionSpec) { s.MaxDeliver = 7 })
	r.start()
	r.waitEvents(1)

	// Deleted and declared anew in one write of a document.
	res, err := r.store.State().UpdateWithConflicts(t.Context(), resources.NewSubscription("commands").Metadata(), func(res resource.Resource) error {
		resources.SetUID(res.Metadata(), "u2")
		resources.SetRevision(res.Metadata(), 1)

		s, ok := res.(*resources.Subscription)
		require.True(t, ok)
		all(s.TypedSpec())

		return nil
	})
	require.NoError(t, err)
	require.NotNil(t, res)
	require.Eventually(t, func() bool {
		info := r.consumer("OPS", "commands")

		return info != nil && info.Config.DeliverPolicy == jetstream.DeliverAllPolicy
	}, soon, tick)
}

func TestWhatMayNotBeListenedToIsRefused(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.open = true
	r.start()
	r.declare("apply", "u1", func(s *resources.SubscriptionSpec) { s.Apply = &resources.ApplyRule{Kinds: []string{"VM"}, Names: "*"} })
	r.declare("own", "u2", func(s *resources.SubscriptionSpec) { s.Subject, s.Stream = "gateway.vm.*.status", "" })
	r.declare("everything", "u3", func(s *resources.SubscriptionSpec) { s.Subject, s.Stream = ">", "" })
	r.declare("plain", "u4", func(*resources.SubscriptionSpec) {})
	r.waitReason("apply", resources.ReasonBrokerNoAuth)
	r.waitReason("own", resources.ReasonPolicyRefused)
	r.waitReason("everything", resources.ReasonPolicyRefused)
	r.waitReason("plain", resources.ReasonReady)
	r.publish("ops.a", "1")
	require.Equal(t, "plain", r.waitEvents(1)[0].TypedSpec().Event.Name)
	require.Nil(t, r.consumer("OPS", "apply"))
}

func TestWhatAnApplyTakesInIsNotToldOutside(t *testing.T) {
	r := newRig(t)
	r.trigger()
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("apply", "u1", func(s *resources.SubscriptionSpec) {
		all(s)
		s.Apply, s.Publish, s.MaxDeliver = &resources.ApplyRule{Kinds: []string{"VM"}, Names: "*"}, "full", 1
	})

	_, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "ops.a", Data: []byte("secret"), Header: nats.Header{"Authorization": {"secret"}, "x-trace": {"1\xff"}}})
	require.NoError(t, err)
	_, err = r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "ops.a", Data: []byte("secret"), Header: nats.Header{"Gateway-Hops": {"9"}}})
	require.NoError(t, err)

	event := r.waitEvents(1)[0]
	require.ElementsMatch(t, []string{resources.FinalizerTrigger, resources.FinalizerDocuments}, *event.Metadata().Finalizers())
	require.Equal(t, []string{"VM"}, event.TypedSpec().Apply.Kinds)
	require.Equal(t, map[string]string{"x-trace": "1\ufffd"}, event.TypedSpec().Event.Headers)
	require.Eventually(t, func() bool { return len(r.dead()) == 1 }, soon, tick)

	entries, err := r.store.Journal().Query(t.Context(), store.Query{})
	require.NoError(t, err)

	for _, e := range entries {
		require.Empty(t, e.Data)
		require.NotContains(t, string(e.Attributes), "secret")
		require.NotContains(t, string(e.Attributes), `"publish":"full"`)
	}
}
