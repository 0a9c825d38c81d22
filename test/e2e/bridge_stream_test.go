package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// message is a message of a stream.
type message struct {
	subject, id string
	data        []byte
}

// broker is a JetStream client of a test: the command is too slow for streams of a thousand messages.
type broker struct{ js jetstream.JetStream }

func newBroker(t *testing.T, url string, options ...natsgo.Option) *broker {
	t.Helper()

	connection, err := natsgo.Connect(url, append(options, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(100*time.Millisecond))...)
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	return &broker{js: js}
}

// all returns what a stream has, oldest first.
func (b *broker) all(ctx context.Context, name string) (messages []message, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("error looking up the stream %s: %w", name, err)
	}

	state := stream.CachedInfo().State

	for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
		msg, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // purged
		}

		if err != nil {
			return nil, fmt.Errorf("error reading the stream %s: %w", name, err)
		}

		messages = append(messages, message{subject: msg.Subject, id: msg.Header.Get(natsgo.MsgIdHdr), data: msg.Data})
	}

	return messages, nil
}

// kept returns what a bucket has under a name; nil: nothing.
func (b *broker) kept(ctx context.Context, bucket, name string) ([]byte, error) {
	kv, err := b.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("error looking up the bucket %s: %w", bucket, err)
	}

	value, err := kv.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("error reading %s of the bucket %s: %w", name, bucket, err)
	}

	return value.Value(), nil
}

// ordered requires that the numbers of each subject's messages rise, and that a number which is there again has the bytes
// that it had.
func ordered(t *testing.T, messages []message) {
	t.Helper()

	type last struct {
		uid    string
		number uint64
	}

	newest := map[string]last{}

	unique(t, messages)

	for _, m := range messages {
		uid, number := messageID(t, "Nats-Msg-Id: "+m.id)
		l := newest[m.subject]
		require.True(t, l.uid != uid || number >= l.number, "%s: %s/%d came after %d", m.subject, uid, number, l.number)
		newest[m.subject] = last{uid: uid, number: number}
	}
}

// unique requires that messages with one id are the same.
func unique(t *testing.T, messages []message) {
	t.Helper()

	bytes := map[string]string{}

	for _, m := range messages {
		before, seen := bytes[m.id]
		require.True(t, !seen || before == string(m.data), "%s of %s was published with other bytes:\n%s\n%s", m.id, m.subject, before, m.data)
		bytes[m.id] = string(m.data)
	}
}

// eventID returns the id of the CloudEvent that a message is.
func eventID(t *testing.T, m message) string {
	t.Helper()

	var e struct {
		ID string `json:"id"`
	}

	require.NoError(t, json.Unmarshal(m.data, &e), "%s", m.data)

	return e.ID
}

// nowhere requires that no message has a text.
func nowhere(t *testing.T, text string, messages []message) {
	t.Helper()

	for _, m := range messages {
		require.False(t, strings.Contains(string(m.data), text), "%s: %s", m.subject, m.data)
	}
}
