package broker

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestJetStreamComesBackAfterItsDiskWasFull(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, e *Embedded){
		"when the server has switched it off": func(t *testing.T, e *Embedded) { t.Helper(); require.NoError(t, e.server.ShutdownJetStream()) },
		"when a stream has given up": func(t *testing.T, e *Embedded) {
			t.Helper()
			e.log.Errorf("JetStream stream 'S' critical write error: %v", syscall.ENOSPC)
		},
	} {
		t.Run(name, func(t *testing.T) { comesBack(t, fail) })
	}
}

func comesBack(t *testing.T, fail func(*testing.T, *Embedded)) {
	t.Helper()

	store := t.TempDir()
	e, err := StartEmbedded(EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: store})
	require.NoError(t, err)

	defer e.Stop()

	connection, err := nats.Connect(e.URL())
	require.NoError(t, err)

	defer connection.Close()

	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)

	_, err = js.Publish(t.Context(), "s", []byte("before"))
	require.NoError(t, err)
	require.NoError(t, e.Revive(), "it is on")

	fail(t, e)

	full := filepath.Join(store, "nats", "room") // a directory where the file should be
	require.NoError(t, os.MkdirAll(filepath.Join(full, "x"), 0o700))
	require.ErrorContains(t, e.Revive(), "can't write its streams")

	require.NoError(t, os.RemoveAll(full))
	require.NoError(t, e.Revive())
	require.NoError(t, e.Revive(), "once is enough")

	ack, err := js.Publish(t.Context(), "s", []byte("after"))
	require.NoError(t, err)
	require.Equal(t, uint64(2), ack.Sequence)

	message, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "before", string(message.Data))
}
