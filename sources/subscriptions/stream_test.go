package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

func all(s *resources.SubscriptionSpec) { s.Deliver.Policy = "all" }

func TestCaseS61APoisonMessageIsTriedAFewTimesWithGrowingDelaysAndThenADeadLetter(t *testing.T) {
	r := newRig(t)
	stream := r.stream("OPS", "ops.>")
	r.publish("ops.a", `{"cut":`)
	r.publish("ops.b", `{"good":true}`)

	advisories, err := r.conn.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>")
	require.NoError(t, err)

	r.start()

	var times []time.Time

	r.controller.timing.delay = func(n uint64) time.Duration {
		times = append(times, time.Now())

		return delayOf(n) / 20
	}

	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.Content = "json"; s.MaxDeliver = 4 })
	require.Eventually(t, func() bool { return len(r.dead()) == 1 }, soon, tick)

	letter := r.dead()[0]
	require.Equal(t, resources.ReasonInvalid, letter.Reason)
	require.Contains(t, letter.Message, "not acceptable JSON")
	require.Equal(t, `{"cut":`, string(letter.Data))
	require.Len(t, times, 3, "three were asked for again, the fourth is the end")

	last := time.Duration(0)

	for i := 1; i < len(times); i++ {
		require.Greater(t, times[i].Sub(times[i-1]), last)
		last = times[i].Sub(times[i-1])
	}

	r.waitSettled("OPS", "commands")

	advisory, err := advisories.NextMsg(soon)
	require.NoError(t, err)
	require.Contains(t, string(advisory.Data), "not acceptable JSON", "the server was told why")
	require.NotNil(t, stream)

	events := r.waitEvents(1)
	require.JSONEq(t, `{"good":true}`, string(events[0].TypedSpec().Data), "what comes after it was not held up")
	require.Eventually(t, func() bool { return r.status("commands").Counts.Refused == 1 }, soon, tick)
}

func TestCaseS61ADeadLetterIsDurableBeforeTheStreamForgetsTheMessage(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.publish("ops.a", `{"cut":`)
	r.store.setBarrier(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	r.start()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.Content = "json"; s.MaxDeliver = 1 })
	require.Eventually(t, func() bool { return len(r.dead()) == 1 }, soon, tick)
	require.Never(t, func() bool { return r.consumer("OPS", "commands").NumAckPending == 0 }, 300*time.Millisecond, tick)
	r.stop()
	require.Equal(t, 1, r.consumer("OPS", "commands").NumAckPending, "a crash here leaves it to be delivered again")
}

func TestPoisonDoesNotHoldUpWhatIsGood(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")

	for range maxAckPending + 200 {
		_, err := r.js.PublishAsync("ops.bad", []byte("{"), jetstream.WithStallWait(soon))
		require.NoError(t, err)
	}

	r.publish("ops.good", "1")
	r.start()
	r.controller.timing.delay = func(uint64) time.Duration { return time.Hour }
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.Content = "json" })
	r.waitEvents(1)
	require.Eventually(t, func() bool { return r.consumer("OPS", "commands").NumAckPending == maxPatience }, soon, tick)
}

func TestCaseS62AMessageThatWasStoredAndNotAcknowledgedIsOneEvent(t *testing.T) {
	r := newRig(t)
	r.trigger()
	r.stream("OPS", "ops.>")

	var held atomic.Int64

	r.store.setBarrier(func(ctx context.Context) error { held.Add(1); <-ctx.Done(); return ctx.Err() })
	r.start()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) {
		all(s)
		s.AckWait = resources.Duration(time.Second)
		s.Target = &resources.Target{Kind: "VM", Name: "web-1"}
	})
	r.publish("ops.a", "1")
	require.Eventually(t, func() bool { return held.Load() == 1 }, soon, tick)
	r.stop() // the crash: created, not acknowledged
	require.Equal(t, 1, r.consumer("OPS", "commands").NumAckPending)

	r.store.setBarrier(nil)
	r.start()
	r.waitSettled("OPS", "commands")

	event := r.waitEvents(1)[0]
	require.Equal(t, &resources.Target{Kind: "VM", Name: "web-1"}, event.TypedSpec().Event.Target, "the target is copied to the event")
	require.Equal(t, []resource.Finalizer{resources.FinalizerTrigger}, []resource.Finalizer(*event.Metadata().Finalizers()))
	require.Eventually(t, func() bool { return r.status("commands").Counts.Duplicates == 1 }, soon, tick)

	entries, err := r.store.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassEvent}})
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestCaseS63TheServerRestartsAndTheSourceCatchesUp(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
	r.waitReason("commands", resources.ReasonReady)
	r.publish("ops.a", "1")
	r.waitEvents(1)

	r.embedded.Stop()
	r.waitReason("commands", resources.ReasonDisconnected)
	r.startServer()
	require.Eventually(t, r.conn.IsConnected, soon, tick)
	r.publish("ops.a", "2")
	r.waitEvents(2)
	r.waitReason("commands", resources.ReasonReady)
	require.Less(t, r.logs.Len(), 15, "lines are bounded: %v", r.logs.All())
}

func TestCaseS63AStreamThatIsMadeLaterIsCaughtUpWith(t *testing.T) {
	r := newRig(t)
	r.start()
	r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
	r.waitReason("commands", resources.ReasonWaiting)

	before := r.logs.Len()

	require.Never(t, func() bool { return r.logs.Len() > before+1 }, 500*time.Millisecond, tick, "waiting is not logged again and again")

	r.stream("OPS", "ops.>")
	r.publish("ops.a", "1") // before the source has seen the stream
	r.waitEvents(1)
	r.waitReason("commands", resources.ReasonReady)
}

func TestCaseS63AStreamThatIsMadeAnewIsListenedTo(t *testing.T) {
	for name, away := range map[string]bool{"while the source is connected": false, "while the connection is away": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.stream("OPS", "ops.>")
			r.start()
			r.declare("commands", "u1", func(*resources.SubscriptionSpec) {})
			r.waitReason("commands", resources.ReasonReady)
			r.publish("ops.a", "1")
			r.waitEvents(1)

			if away {
				r.embedded.Stop()
				r.dir = t.TempDir() // the server comes back without its streams
				r.startServer()
				require.Eventually(t, r.conn.IsConnected, soon, tick)
			} else {
				require.NoError(t, r.js.DeleteStream(t.Context(), "OPS"))
			}

			r.stream("OPS", "ops.>")
			r.publish("ops.a", "2")
			r.waitEvents(2)
		})
	}
}

func TestCaseS64TheBacklogOfASlowGatewayStaysInTheStream(t *testing.T) {
	r := newRig(t)
	r.trigger()
	stream := r.stream("OPS", "ops.>")
	r.start()

	const bound, sent = 5000, 6500

	for i := range sent {
		_, err := r.js.PublishAsync("ops.a", fmt.Append(nil, i), jetstream.WithStallWait(soon))
		require.NoError(t, err)
	}

	<-r.js.PublishAsyncComplete()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.AckWait = resources.Duration(time.Second) })
	require.Eventually(t, func() bool { return len(r.events()) >= bound }, 2*soon, 50*time.Millisecond)
	require.Never(t, func() bool { return len(r.events()) > bound }, 1500*time.Millisecond, 50*time.Millisecond, "nobody processes them")

	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, sent, info.State.Msgs)
	require.EqualValues(t, sent-bound, r.consumer("OPS", "commands").NumPending+uint64(r.consumer("OPS", "commands").NumAckPending)) //nolint:gosec // few

	// Somebody processes them: the rest follows, each once.
	for _, e := range r.events()[:2000] {
		require.NoError(t, r.store.State().RemoveFinalizer(t.Context(), e.Metadata(), resources.FinalizerTrigger))
		require.NoError(t, r.store.State().Destroy(t.Context(), e.Metadata(), stateOwner()))
	}

	require.Eventually(t, func() bool { return len(r.events()) == sent-2000 }, 2*soon, 50*time.Millisecond)
	r.waitSettled("OPS", "commands")
	require.Eventually(t, func() bool { return r.status("commands").Counts.Received == sent }, soon, tick)
}

func TestCaseS65CloudEventsAndMessageIDsInAnyCase(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", all)

	for i, h := range []nats.Header{
		{"ce-specversion": {"1.0"}, "ce-id": {"7"}, "ce-source": {"/shop"}, "ce-type": {"a.b"}, "content-type": {"text/plain"}},
		{"Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Source": {"/shop"}, "Ce-Type": {"a.b"}, "Content-Type": {"text/plain"}},
		{"CONTENT-TYPE": {"application/cloudevents+json; charset=utf-8"}},
	} {
		data := "hello"
		if i == 2 {
			data = `{"specversion":"1.0","id":"7","source":"/shop","type":"a.b","datacontenttype":"text/plain","data":"hello"}`
		}

		_, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "ops.a", Header: h, Data: []byte(data)})
		require.NoError(t, err)
	}

	for _, e := range r.waitEvents(3) {
		a := e.TypedSpec().Event
		require.Equal(t, "/shop a.b text/plain", strings.Join([]string{a.CESource, a.Type, a.DataContentType}, " "))
		require.Equal(t, "hello", string(e.TypedSpec().Data))
		require.Equal(t, "ops.a", e.TypedSpec().NATSSubject)
	}

	require.Equal(t, "x", header(nats.Header{"nats-msg-id": {"x"}}, headerMessageID))
	require.Equal(t, "Nats-Msg-Id", headerMessageID)
}

func TestAMessageThatWentInCirclesIsADeadLetter(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.MaxDeliver = 1 })

	structured := `{"specversion":"1.0","id":"7","source":"/s","type":"t","gatewayhops":%s}`

	for _, msg := range []*nats.Msg{
		{Header: nats.Header{"Gateway-Hops": {"8"}}}, {Header: nats.Header{"Gateway-Hops": {"-1"}}}, {Header: nats.Header{"gateway-hops": {"x"}}},
		{Header: nats.Header{"content-type": {"application/cloudevents+json"}}, Data: fmt.Appendf(nil, structured, "8")},
		{Header: nats.Header{"Gateway-Hops": {"7"}}}, {Header: nats.Header{"content-type": {"application/cloudevents+json"}}, Data: fmt.Appendf(nil, structured, "3")},
	} {
		msg.Subject = "ops.a"
		_, err := r.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}

	require.Eventually(t, func() bool { return len(r.dead()) == 4 }, soon, tick)

	var hops []int
	for _, e := range r.waitEvents(2) {
		hops = append(hops, e.TypedSpec().Event.Hops)
	}

	slices.Sort(hops)
	require.Equal(t, []int{3, 7}, hops)
}

func TestAMessageThatIsTooLargeIsADeadLetter(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.MaxDeliver = 1; s.MaxBytes = 10 })
	r.publish("ops.a", strings.Repeat("x", 11))
	r.publish("ops.a", strings.Repeat("x", 10))
	r.waitEvents(1)
	require.Eventually(t, func() bool { return len(r.dead()) == 1 }, soon, tick)
}

func TestAStoreThatFailsPausesTheSourceAndLosesNothing(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.store.setBarrier(func(context.Context) error { return errors.New("disk full") })
	r.start()
	r.declare("commands", "u1", func(s *resources.SubscriptionSpec) { all(s); s.AckWait = resources.Duration(time.Second) })

	for i := range 500 {
		r.publish("ops.a", fmt.Sprint(i))
	}

	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(r.status("commands").Conditions), "disk full") }, soon, tick)
	require.Positive(t, r.consumer("OPS", "commands").NumAckPending, "nothing is acknowledged that is not durable")
	r.store.setBarrier(nil)
	r.waitEvents(500)
	r.waitSettled("OPS", "commands")
	r.waitReason("commands", resources.ReasonReady)
	require.Less(t, r.logs.Len(), 10, "lines are bounded: %v", r.logs.All())
}

func TestTheSourceListensAgainAfterAStatusCouldNotBeWritten(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", all)
	r.publish("ops.a", "1")
	r.waitEvents(1)
	require.Eventually(t, func() bool { return r.status("commands").Counts.Received == 1 }, soon, tick)

	r.refuse.Store(1)
	r.publish("ops.a", "2") // is counted, and the count can't be written
	require.Eventually(t, func() bool { return r.refuse.Load() < 0 }, soon, tick)

	r.publish("ops.a", "3")
	r.waitEvents(3)
	r.waitSettled("OPS", "commands")
	r.waitReason("commands", resources.ReasonReady)
}

func TestManyMessagesAreTakenInAndAcknowledged(t *testing.T) {
	r := newRig(t)
	r.stream("OPS", "ops.>")
	r.start()
	r.declare("commands", "u1", all)

	for i := range 4000 {
		_, err := r.js.PublishAsync("ops.a", fmt.Append(nil, i), jetstream.WithStallWait(soon))
		require.NoError(t, err)
	}

	start := time.Now()

	r.waitEvents(4000)
	r.waitSettled("OPS", "commands")
	t.Logf("4000 messages in %s", time.Since(start))
}
