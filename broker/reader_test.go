package broker_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"gateway/broker"
)

// reader returns a reader on a server that has the gateway's streams.
func reader(t *testing.T) (*broker.Reader, jetstream.JetStream) {
	t.Helper()

	_, _, js := start(t, "")
	names := broker.Names{Prefix: "gateway"}

	for _, stream := range names.Streams() {
		_, err := js.CreateOrUpdateStream(t.Context(), stream)
		require.NoError(t, err)
	}

	return &broker.Reader{JetStream: func() jetstream.JetStream { return js }, Names: names}, js
}

func publish(t *testing.T, js jetstream.JetStream, subject, id, reason, body string) {
	t.Helper()

	_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{"Nats-Msg-Id": {id}, "Gateway-Reason": {reason}}})
	require.NoError(t, err)
}

func TestPublishedStatusesAreFoundByObjectAndTime(t *testing.T) {
	r, js := reader(t)
	begin := time.Now().Add(-time.Second)

	none, err := r.Published(t.Context(), "VM", "web-1", begin, 10)
	require.NoError(t, err)
	require.Empty(t, none)

	for n := range 12 {
		id := "uid/" + strconv.Itoa(n)
		publish(t, js, "gateway.vm.web-1.status", id, "", `{"id": "`+id+`", "type": "gateway.vm.status.v1", "gatewaycause": "e1"}`)
		publish(t, js, "gateway.vm.web-2.status", "other/"+strconv.Itoa(n), "", `{"id": "x"}`)
	}

	publish(t, js, "gateway.vm.web-1.status", "", "", "not ours")

	published, err := r.Published(t.Context(), "VM", "web-1", begin, 100)
	require.NoError(t, err)
	require.Len(t, published, 12)
	require.Equal(t, "uid/0", published[0].MessageID)
	require.Equal(t, "uid/11", published[11].MessageID)
	require.Equal(t, "e1", published[0].Cause)
	require.Equal(t, "GATEWAY_STATUS", published[0].Stream)
	require.EqualValues(t, 1, published[0].Sequence)

	published, err = r.Published(t.Context(), "VM", "web-1", begin, 5)
	require.NoError(t, err)
	require.Len(t, published, 5)

	published, err = r.Published(t.Context(), "VM", "web-1", time.Now().Add(time.Hour), 5)
	require.NoError(t, err)
	require.Empty(t, published)
}

func TestDeadLettersAreReadAndTakenOut(t *testing.T) {
	r, js := reader(t)

	none, err := r.DeadLetters(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, none)

	for n := 1; n <= 7; n++ {
		id := "e" + strconv.Itoa(n)
		publish(t, js, "gateway.dead.webhook.inbox", id+"/"+strconv.Itoa(n), "Invalid: spec.cpus",
			`{"id": "`+id+`", "gatewaysource": "webhook", "gatewayname": "inbox", "type": "t", "subject": "s", "gatewaybytes": 7}`)
	}

	publish(t, js, "gateway.dead.webhook.inbox", "", "", "{}")

	letters, err := r.DeadLetters(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, letters, 7)
	require.Equal(t, "e1/1", letters[0].MessageID)
	require.Equal(t, "Invalid: spec.cpus", letters[0].Reason)
	require.Equal(t, "inbox", letters[0].Name)

	letters, err = r.DeadLetters(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, letters, 2, "the newest three messages, one of which is not ours")

	purged, err := r.PurgeDead(t.Context(), func(l broker.DeadLetter) bool { return l.EventID != "e3" })
	require.NoError(t, err)
	require.Equal(t, 6, purged)

	letters, err = r.DeadLetters(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "e3", letters[0].EventID)
}

func TestAReaderWithoutAConnectionSaysSo(t *testing.T) {
	r := &broker.Reader{JetStream: func() jetstream.JetStream { return nil }, Names: broker.Names{Prefix: "gateway"}}

	_, err := r.DeadLetters(t.Context(), 1)
	require.ErrorIs(t, err, broker.ErrAway)
	_, err = r.Published(t.Context(), "VM", "a", time.Now(), 1)
	require.ErrorIs(t, err, broker.ErrAway)
	_, err = r.PurgeDead(t.Context(), func(broker.DeadLetter) bool { return true })
	require.ErrorIs(t, err, broker.ErrAway)
}
