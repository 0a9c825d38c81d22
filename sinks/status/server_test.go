package status_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sinks/status"
)

const (
	soon = 30 * time.Second
	tick = 10 * time.Millisecond
)

// The NATS server leaves a goroutine behind that waits for the source of a bucket, which is a stream that is gone with it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

var names = broker.Names{Prefix: "gateway"}

// server is a broker that can be stopped and started again on its port and its files.
type server struct {
	t        *testing.T
	dir      string
	listen   string
	embedded *broker.Embedded
	js       jetstream.JetStream
}

func startServer(t *testing.T) *server {
	t.Helper()

	s := &server{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	s.start()
	s.listen = strings.TrimPrefix(s.embedded.URL(), "nats://")
	t.Cleanup(func() { s.embedded.Stop() })

	connection, err := broker.Connect(config.NATS{URL: s.embedded.URL()}, nil, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	s.js, err = jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(1024), jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	for _, cfg := range names.Streams() {
		_, err := s.js.CreateOrUpdateStream(t.Context(), cfg)
		require.NoError(t, err)
	}

	return s
}

func (s *server) start() {
	s.t.Helper()

	var err error

	s.embedded, err = broker.StartEmbedded(broker.EmbeddedOptions{Listen: s.listen, DataDir: s.dir})
	require.NoError(s.t, err)
}

// count returns how many messages the stream of statuses has; 0 while the server is away.
func (s *server) count() int {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()

	stream, err := s.js.Stream(ctx, names.StatusStream())
	if err != nil {
		return 0
	}

	return int(stream.CachedInfo().State.Msgs) //nolint:gosec // few
}

// last returns the value of a key in a bucket; empty where there is none.
func (s *server) last(kind, name string) string {
	kv, err := s.js.KeyValue(s.t.Context(), names.StatusBucket(kind))
	require.NoError(s.t, err)

	entry, err := kv.Get(s.t.Context(), name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}

	require.NoError(s.t, err)

	return string(entry.Value())
}

// runOn starts a sink; it ends when stop is called.
func runOn(t *testing.T, st state.State, p status.Publisher) (stop func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	sink := status.New(status.Options{
		State: st, Barrier: open{}, Publisher: p, Names: names, GatewayID: "home",
		Logger: zap.NewNop(), Metrics: sinks.NewMetrics(prometheus.NewRegistry()).For("status"),
	})

	go func() { done <- sink.Run(ctx) }()

	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func TestTheBucketsHoldTheLastStatusOfWhatIsThere(t *testing.T) {
	s, st := startServer(t), newState()
	defer runOn(t, st, s.js)()

	host := resources.NewHostStatus("node-7")
	host.TypedSpec().UID = "h1"
	require.NoError(t, st.Create(t.Context(), host, state.WithCreateOwner("host")))
	create(t, st, "web-1", "u1")
	change(t, st, "web-1", "running")

	require.Eventually(t, func() bool { return strings.Contains(s.last("VM", "web-1"), `"state":"running"`) }, soon, tick)
	require.Eventually(t, func() bool { return strings.Contains(s.last("Host", "node-7"), "gateway.host.status.v1") }, soon, tick)

	stream, err := s.js.Stream(t.Context(), names.StatusStream())
	require.NoError(t, err)

	msg, err := stream.GetLastMsgForSubject(t.Context(), "gateway.vm.web-1.status")
	require.NoError(t, err)
	require.Equal(t, string(msg.Data), s.last("VM", "web-1"), "the same bytes")

	bury(t, st, "web-1", "u1")
	require.Eventually(t, func() bool { return s.last("VM", "web-1") == "" }, soon, tick)

	msg, err = stream.GetLastMsgForSubject(t.Context(), "gateway.vm.web-1.status")
	require.NoError(t, err)
	require.Contains(t, string(msg.Data), "gateway.vm.deleted.v1", "last of all")

	create(t, st, "web-1", "u2")
	require.Eventually(t, func() bool { return strings.Contains(s.last("VM", "web-1"), `"id":"u2/1"`) }, soon, tick)
	require.NotEmpty(t, s.last("Host", "node-7"))
}

// counting counts what is sent.
type counting struct {
	status.Publisher

	sent atomic.Int64
}

func (c *counting) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	c.sent.Add(1)

	return c.Publisher.PublishMsgAsync(msg, opts...)
}

func TestARestartPublishesWhatIsThereAgainAndTheStreamTakesItOnce(t *testing.T) {
	s, st := startServer(t), newState()

	for i := range 20 {
		create(t, st, fmt.Sprint("vm-", i), fmt.Sprint("u", i))
	}

	stop := runOn(t, st, s.js)
	require.Eventually(t, func() bool { return s.count() == 20 }, soon, tick)
	stop()

	again := &counting{Publisher: s.js}
	defer runOn(t, st, again)()

	require.Eventually(t, func() bool { return again.sent.Load() == 20 }, soon, tick)
	change(t, st, "vm-7", "running")
	require.Eventually(t, func() bool { return strings.Contains(s.last("VM", "vm-7"), "running") }, soon, tick)
	require.Equal(t, 21, s.count())
}

func TestStatusesGoOnWhereTheServerWasAway(t *testing.T) {
	s, st := startServer(t), newState()
	defer runOn(t, st, s.js)()

	create(t, st, "web-1", "u1")
	require.Eventually(t, func() bool { return s.count() == 1 }, soon, tick)
	s.embedded.Stop()

	for i := range 50 {
		change(t, st, "web-1", fmt.Sprint("s", i))
	}

	create(t, st, "web-2", "u2")
	s.start()
	require.Eventually(t, func() bool { return s.count() >= 3 }, soon, tick)
	require.Eventually(t, func() bool { return strings.Contains(s.last("VM", "web-1"), `"s49"`) && s.last("VM", "web-2") != "" }, soon, tick)
	require.LessOrEqual(t, s.count(), 5, "what came in between is coalesced")
}

func TestTenThousandStatusesArePublished(t *testing.T) {
	s, st := startServer(t), newState()

	const n = 10_000

	for i := range n {
		create(t, st, fmt.Sprint("vm-", i), fmt.Sprint("u", i))
	}

	start := time.Now()
	defer runOn(t, st, s.js)()

	require.Eventually(t, func() bool { return s.count() == n }, 4*soon, tick)
	t.Logf("%d statuses in %s", n, time.Since(start))
	require.Eventually(t, func() bool { return s.last("VM", "vm-9999") != "" }, soon, tick)
}

// small is a server whose limit of a payload is small.
type small struct{ status.Publisher }

func (p small) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if len(msg.Data) > 10_000 {
		return nil, nats.ErrMaxPayload
	}

	return p.Publisher.PublishMsgAsync(msg, opts...)
}

func TestAStatusThatIsTooLargeHoldsUpNoOther(t *testing.T) {
	s, st := startServer(t), newState()
	defer runOn(t, st, small{s.js})()

	create(t, st, "big", "u1")
	require.Eventually(t, func() bool { return s.last("VM", "big") != "" }, soon, tick)
	change(t, st, "big", strings.Repeat("x", 20_000))

	for i := range 20 {
		create(t, st, fmt.Sprint("vm-", i), fmt.Sprint("v", i))
	}

	require.Eventually(t, func() bool { return s.count() == 21 }, 2*time.Second, tick)
	change(t, st, "big", "small again")
	require.Eventually(t, func() bool { return strings.Contains(s.last("VM", "big"), "small again") }, soon, tick)
}
