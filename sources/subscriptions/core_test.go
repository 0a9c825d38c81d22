package subscriptions

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func stateOwner() state.DestroyOption { return state.WithDestroyOwner(resources.SourceSubscriptions) }

func core(s *resources.SubscriptionSpec) { s.Stream = "" }

func TestCoreMessagesAreEvents(t *testing.T) {
	r := newRig(t)
	r.start()
	r.declare("plain", "u1", core)
	r.declare("other", "u2", func(s *resources.SubscriptionSpec) { core(s); s.Queue = "workers" })
	r.waitReason("plain", resources.ReasonReady)
	r.waitReason("other", resources.ReasonReady)

	// Another member of the queue group takes its share.
	member, err := r.conn.QueueSubscribeSync("ops.>", "workers")
	require.NoError(t, err)
	require.NoError(t, r.conn.Flush())

	for i := range 100 {
		require.NoError(t, r.conn.Publish("ops.a", fmt.Append(nil, i)))
	}

	require.NoError(t, r.conn.Flush())
	require.Eventually(t, func() bool {
		share, _, err := member.Pending()

		return err == nil && len(r.events()) == 200-share && share > 0 && share < 100
	}, soon, tick)

	numbers := map[string]uint64{}

	for _, e := range r.events() {
		if spec := e.TypedSpec(); spec.Event.Name == "plain" {
			numbers[string(spec.Data)] = spec.Event.Sequence
		}
	}

	for i := range 99 {
		require.Less(t, numbers[fmt.Sprint(i)], numbers[fmt.Sprint(i+1)], "numbered as they come")
	}
}

func TestACoreMessageIDIsTakenOnce(t *testing.T) {
	r := newRig(t)
	r.start()
	r.declare("plain", "u1", core)
	r.waitReason("plain", resources.ReasonReady)

	for range 3 {
		require.NoError(t, r.conn.PublishMsg(&nats.Msg{Subject: "ops.a", Header: nats.Header{"nats-msg-id": {"one"}}}))
	}

	require.NoError(t, r.conn.PublishMsg(&nats.Msg{Subject: "ops.a", Header: nats.Header{"Gateway-Hops": {"8"}}}))
	require.Eventually(t, func() bool { return len(r.dead()) == 1 }, soon, tick)
	require.Len(t, r.events(), 1)
	require.Eventually(t, func() bool { return r.status("plain").Counts.Duplicates == 2 }, soon, tick)
}

func TestCoreMessagesThatComeTooFastAreCountedAndShown(t *testing.T) {
	r := newRig(t)
	r.trigger()
	r.start()
	r.declare("plain", "u1", core)
	r.waitReason("plain", resources.ReasonReady)

	const sent = 25_000 // more than may be pending as events and in the client library together

	for i := range sent {
		require.NoError(t, r.conn.Publish("ops.a", fmt.Append(nil, i)))
	}

	require.NoError(t, r.conn.Flush())

	// Somebody processes what is there, until all of them are accounted for.
	require.Eventually(t, func() bool {
		for _, e := range r.events() {
			if r.store.State().RemoveFinalizer(context.Background(), e.Metadata(), resources.FinalizerTrigger) == nil {
				_ = r.store.State().Destroy(context.Background(), e.Metadata(), stateOwner())
			}
		}

		c := r.status("plain").Counts

		return c.Refused > 0 && c.Received+c.Refused == sent
	}, 2*soon, 50*time.Millisecond)
	require.Contains(t, r.status("plain").Counts.LastError, "a stream would keep them")
	require.Less(t, r.logs.Len(), 10, "lines are bounded: %v", r.logs.All())
}

func TestCoreSubscriptionsComeBackWithTheServer(t *testing.T) {
	r := newRig(t)
	r.start()
	r.declare("plain", "u1", core)
	r.waitReason("plain", resources.ReasonReady)
	r.embedded.Stop()
	r.waitReason("plain", resources.ReasonDisconnected)
	r.startServer()
	r.waitReason("plain", resources.ReasonReady)
	require.NoError(t, r.conn.Publish("ops.a", []byte("1")))
	r.waitEvents(1)
	r.remove("plain")
	require.Eventually(t, func() bool { return len(r.status("plain").Conditions) == 0 }, soon, tick)
}
