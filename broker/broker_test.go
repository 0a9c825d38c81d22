package broker_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gateway/broker"
	"gateway/config"
)

func TestCaseS60SubjectsThatWouldHarmTheConnectionAreRefused(t *testing.T) {
	for _, subject := range []string{"", "a..b", ".a", "a.", "a b", "a\x00b", "a\tb", "ev.*", "ev.>", "a>", strings.Repeat("a", 5000)} {
		require.Error(t, broker.ValidateSubject(subject, false), "%q", subject)
	}

	for _, subject := range []string{"a*", "a.>.b", ">a", "a.*b"} {
		require.Error(t, broker.ValidateSubject(subject, true), "%q", subject)
	}

	for _, subject := range []string{"a", "a.b-c_d", "ops.vm.*", "ops.>", ">", "*.b"} {
		require.NoError(t, broker.ValidateSubject(subject, true), "%q", subject)
	}
}

func TestEveryNameBecomesOneTokenOfItsOwn(t *testing.T) {
	seen := map[string]string{}

	for _, name := range []string{"web-1", "a.b", "a%2Eb", "a b", "", "%", "*", ">", "é", strings.Repeat("x.", 4000), strings.Repeat("x.", 4001)} {
		token := broker.EncodeToken(name)
		require.NoError(t, broker.ValidateSubject("gateway.event.file."+token, false), "%q", name)
		require.NotContains(t, token, ".")
		require.Empty(t, seen[token], "%q and %q", name, seen[token])
		seen[token] = name + "!"
	}

	require.Equal(t, "web-1", broker.EncodeToken("web-1"))
}

// start runs an embedded server and returns a JetStream context of it.
func start(t *testing.T, tokenFile string) (*broker.Embedded, *nats.Conn, jetstream.JetStream) {
	t.Helper()

	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{
		Listen: "127.0.0.1:0", DataDir: t.TempDir(), TokenFile: tokenFile, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(embedded.Stop)

	cfg := config.NATS{}
	cfg.Embedded.TokenFile = tokenFile

	connection, err := broker.Connect(cfg, embedded, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	js, err := jetstream.New(connection, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	return embedded, connection, js
}

func TestAPortThatIsTakenIsNamedWithTheKeyThatChangesIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })

	_, err = broker.StartEmbedded(broker.EmbeddedOptions{Listen: l.Addr().String(), DataDir: t.TempDir()})
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "nats.embedded.listen")
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()), "who holds it")
}

func TestATokenKeepsOthersOut(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("s3cret\n"), 0o600))

	embedded, connection, _ := start(t, token)
	require.False(t, embedded.Open())
	require.True(t, connection.IsConnected())

	_, err := nats.Connect(embedded.URL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

func TestTheBucketFollowsTheStatusStreamAndItsDeletions(t *testing.T) {
	_, connection, js := start(t, "")
	names := broker.Names{Prefix: "gateway"}
	ctx := t.Context()

	for _, cfg := range names.Streams() {
		_, err := js.CreateOrUpdateStream(ctx, cfg)
		require.NoError(t, err, cfg.Name)
	}

	require.NotNil(t, connection)

	_, err := js.Publish(ctx, names.Status("VM", "web-1"), []byte(`{"n":1}`))
	require.NoError(t, err)

	kv, err := js.KeyValue(ctx, names.StatusBucket("VM"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		entry, err := kv.Get(ctx, "web-1")

		return err == nil && string(entry.Value()) == `{"n":1}`
	}, 5*time.Second, 10*time.Millisecond)

	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: names.Status("VM", "web-1"), Data: []byte(`{"deleted":true}`),
		Header: nats.Header{"KV-Operation": {"PURGE"}},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := kv.Get(ctx, "web-1")

		return err == jetstream.ErrKeyNotFound
	}, 5*time.Second, 10*time.Millisecond)
}

func TestASecondGatewayCanNotTakeAClaimedPrefix(t *testing.T) {
	_, _, js := start(t, "")
	names := broker.Names{Prefix: "home"}

	first, err := broker.TakeClaim(t.Context(), js, names, "one", zap.NewNop())
	require.NoError(t, err)

	_, err = broker.TakeClaim(t.Context(), js, names, "two", zap.NewNop())
	require.ErrorIs(t, err, broker.ErrClaimed)
	require.ErrorContains(t, err, "gateway one")

	again, err := broker.TakeClaim(t.Context(), js, names, "one", zap.NewNop())
	require.NoError(t, err, "the own id retakes its claim at once")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, again.Keep(ctx, "one"))
	require.NoError(t, first.Keep(ctx, "one"))

	_, err = broker.TakeClaim(t.Context(), js, names, "two", zap.NewNop())
	require.NoError(t, err, "a claim that was given up is free")
}

func TestWhatAPayloadAsksToPublishToIsNeitherOursNorTheServers(t *testing.T) {
	names := broker.Names{Prefix: "gateway"}

	for _, subject := range []string{
		"gateway.vm.a.status", "$JS.API.STREAM.DELETE.GATEWAY_EVENTS", "$KV.gateway-vm-status.web-1", "_INBOX.a.b", "*.x", "a..b", "",
	} {
		require.Error(t, names.ValidatePublish(subject), "%q", subject)
	}

	require.NoError(t, names.ValidatePublish("deploys.seen"))
	require.NoError(t, names.ValidatePublish("gateway2.x"))
}

func TestAServerThatCanNotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nats"), []byte("a file"), 0o600))

	_, err := broker.StartEmbedded(broker.EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: dir})
	require.ErrorContains(t, err, "storage directory is not a directory")
}

// TestATokenMayBeRotatedOnTheServerFirst: the client library closes a connection for good after two refusals in a row,
// unless it is told otherwise.
func TestATokenMayBeRotatedOnTheServerFirst(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	require.NoError(t, os.WriteFile(ours, []byte("old"), 0o600))
	require.NoError(t, os.WriteFile(theirs, []byte("new"), 0o600))

	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: dir, TokenFile: theirs})
	require.NoError(t, err)
	t.Cleanup(embedded.Stop)

	core, logs := observer.New(zap.WarnLevel)
	connection, err := broker.Connect(config.NATS{URL: embedded.URL(), TokenFile: ours}, nil, zap.New(core))
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	require.Never(t, func() bool { return connection.IsClosed() || connection.IsConnected() }, 5*time.Second, 100*time.Millisecond)
	require.LessOrEqual(t, logs.Len(), 5, "refusals are logged now and then")

	require.NoError(t, os.WriteFile(ours, []byte("new"), 0o600))
	require.Eventually(t, connection.IsConnected, 10*time.Second, 10*time.Millisecond)
}

func TestOnlyAConnectionThatIsLostIsSaidToBe(t *testing.T) {
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(embedded.Stop)

	core, logs := observer.New(zap.WarnLevel)
	connect := func() *nats.Conn {
		connection, err := broker.Connect(config.NATS{URL: embedded.URL()}, nil, zap.New(core))
		require.NoError(t, err)
		t.Cleanup(connection.Close)
		require.Eventually(t, connection.IsConnected, 10*time.Second, 10*time.Millisecond)

		return connection
	}

	closed := make(chan struct{})
	ours := connect()
	ours.SetClosedHandler(func(*nats.Conn) { close(closed) }) // runs after the one of the disconnection
	ours.Close()
	<-closed
	require.Zero(t, logs.Len())

	connect()
	embedded.Stop()
	require.Eventually(t, func() bool { return logs.FilterMessage("disconnected").Len() == 1 }, 10*time.Second, 10*time.Millisecond)
}

func TestAServerThatIsAwayIsNamedWithoutItsPassword(t *testing.T) {
	connection, err := broker.Connect(config.NATS{URL: "nats://user:secret@127.0.0.1:1"}, nil, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	_, err = connection.Request("x", nil, time.Second)
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)
	require.EqualError(t, broker.Explain(connection, err), "no NATS server answers at nats://127.0.0.1:1")
	require.NoError(t, broker.Explain(connection, nil))
}
