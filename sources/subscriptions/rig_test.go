package subscriptions

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/sources/intake"
	"gateway/sources/intake/intaketest"
	"gateway/store"
)

const (
	soon = 20 * time.Second
	tick = 5 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a real server, a store, and the source on them.
type rig struct {
	t        *testing.T
	dir      string
	listen   string
	embedded *broker.Embedded
	conn     *nats.Conn
	js       jetstream.JetStream
	open     bool

	store    *faultyStore
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
	logger   *zap.Logger

	stop       func()
	controller *Controller
	// refuse is how many writes of statuses are refused from now on.
	refuse atomic.Int64
}

// refusing is a state that refuses writes of statuses.
type refusing struct {
	state.State

	left *atomic.Int64
}

func (r *refusing) Update(ctx context.Context, res resource.Resource, options ...state.UpdateOption) error {
	if res.Metadata().Type() == resources.SubscriptionStatusType && r.left.Add(-1) >= 0 {
		return errors.New("the store takes no writes")
	}

	return r.State.Update(ctx, res, options...)
}

// quick are pauses that tests can wait for. Delays grow as they do in life, a hundred times as fast.
func quick() timing {
	return timing{
		minRetry: 50 * time.Millisecond, maxRetry: 200 * time.Millisecond, breath: 5 * time.Millisecond,
		delay: func(n uint64) time.Duration { return delayOf(n) / 100 },
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel() // most of the time is spent waiting for a server

	core, logs := observer.New(zapcore.InfoLevel)
	r := &rig{
		t: t, dir: t.TempDir(), listen: "127.0.0.1:0", registry: prometheus.NewRegistry(), logs: logs, logger: zap.New(core),
		store: &faultyStore{Store: store.NewMemory("home")}, stop: func() {},
	}
	r.startServer()
	r.listen = strings.TrimPrefix(r.embedded.URL(), "nats://")
	t.Cleanup(func() { r.embedded.Stop() })

	conn, err := broker.Connect(config.NATS{URL: r.embedded.URL()}, nil, r.logger)
	require.NoError(t, err)
	t.Cleanup(conn.Close)

	r.conn = conn
	r.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { r.stop() })

	return r
}

func (r *rig) startServer() {
	r.t.Helper()

	var err error

	r.embedded, err = broker.StartEmbedded(broker.EmbeddedOptions{Listen: r.listen, DataDir: r.dir})
	require.NoError(r.t, err)
}

// start runs the source until stop.
func (r *rig) start() {
	r.t.Helper()

	rt, err := runtime.NewRuntime(state.WrapCore(&refusing{r.store.State(), &r.refuse}), zap.NewNop())
	require.NoError(r.t, err)

	connection := &Connection{NATS: r.conn, JetStream: r.js, Open: r.open}
	r.controller = New(Options{
		Connection: func() *Connection { return connection }, Names: broker.Names{Prefix: "gateway"}, State: r.store.State(),
		Barrier: r.store, Journal: r.store.Journal(), Metrics: intake.NewMetrics(r.registry), Logger: r.logger,
	})
	r.controller.timing = quick()
	require.NoError(r.t, rt.RegisterController(r.controller))

	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
}

// stream makes a stream.
func (r *rig) stream(name string, subjects ...string) jetstream.Stream {
	r.t.Helper()

	s, err := r.js.CreateStream(r.t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects, Retention: jetstream.LimitsPolicy})
	require.NoError(r.t, err)

	return s
}

// declare creates a Subscription document of revision 1.
func (r *rig) declare(name, uid string, change func(*resources.SubscriptionSpec)) {
	r.t.Helper()

	s := resources.NewSubscription(name)
	s.TypedSpec().Subject, s.TypedSpec().Stream = "ops.>", "OPS"
	change(s.TypedSpec())
	require.Empty(r.t, s.TypedSpec().Validate())
	resources.SetUID(s.Metadata(), uid)
	resources.SetRevision(s.Metadata(), 1)
	require.NoError(r.t, r.store.State().Create(r.t.Context(), s))
}

// change updates a document.
// trigger declares one that waits for the messages of every subscription: events then wait to be handled.
func (r *rig) trigger() {
	t := resources.NewTrigger("all")
	t.TypedSpec().On.Source = resources.SourceSubscription
	require.NoError(r.t, r.store.State().Create(r.t.Context(), t))
}

func (r *rig) change(name string, revision int64, change func(*resources.SubscriptionSpec)) {
	r.t.Helper()

	_, err := r.store.State().UpdateWithConflicts(r.t.Context(), resources.NewSubscription(name).Metadata(), func(res resource.Resource) error {
		s, ok := res.(*resources.Subscription)
		require.True(r.t, ok)
		change(s.TypedSpec())
		resources.SetRevision(s.Metadata(), revision)

		return nil
	})
	require.NoError(r.t, err)
}

func (r *rig) remove(name string) {
	r.t.Helper()
	require.NoError(r.t, r.store.State().Destroy(r.t.Context(), resources.NewSubscription(name).Metadata()))
}

// status returns a subscription's status, empty while there is none.
func (r *rig) status(name string) resources.SubscriptionStatusSpec {
	res, err := r.store.State().Get(r.t.Context(), resources.NewSubscriptionStatus(name).Metadata())
	if err != nil {
		return resources.SubscriptionStatusSpec{}
	}

	status, ok := res.(*resources.SubscriptionStatus)
	require.True(r.t, ok)

	return status.TypedSpec().DeepCopy()
}

// waitReady waits until a subscription's condition has a reason.
func (r *rig) waitReason(name, reason string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		c := resources.FindCondition(r.status(name).Conditions, resources.ConditionReady)

		return c != nil && c.Reason == reason
	}, soon, tick, "%s", reason)
}

// events returns the events that are there, by the order of their sequence in the stream or their arrival.
func (r *rig) events() []*resources.MessageEvent {
	list, err := r.store.State().List(r.t.Context(), resources.NewMessageEvent("").Metadata())
	require.NoError(r.t, err)

	all := make([]*resources.MessageEvent, 0, len(list.Items))

	for _, item := range list.Items {
		e, ok := item.(*resources.MessageEvent)
		require.True(r.t, ok)

		all = append(all, e)
	}

	return all
}

func (r *rig) waitEvents(n int) []*resources.MessageEvent {
	r.t.Helper()

	var all []*resources.MessageEvent

	intaketest.Progress(r.t, "events", func() (int, bool) {
		all = r.events()

		return len(all), len(all) >= n
	})

	require.Len(r.t, all, n)

	return all
}

// dead returns the dead letters.
func (r *rig) dead() []store.Entry {
	entries, err := r.store.Journal().Query(r.t.Context(), store.Query{Classes: []store.Class{store.ClassDead}})
	require.NoError(r.t, err)

	return entries
}

func (r *rig) publish(subject, data string) {
	r.t.Helper()

	_, err := r.js.Publish(r.t.Context(), subject, []byte(data))
	require.NoError(r.t, err)
}

// consumer returns what the server says of the consumer of a subscription; nil where there is none.
func (r *rig) consumer(stream, name string) *jetstream.ConsumerInfo {
	c, err := r.js.Consumer(r.t.Context(), stream, "gateway-"+name)
	if err != nil {
		return nil
	}

	return c.CachedInfo()
}

// waitSettled waits until nothing of the stream is pending or unacknowledged for a subscription.
func (r *rig) waitSettled(stream, name string) {
	r.t.Helper()
	intaketest.Progress(r.t, "messages", func() (int, bool) {
		info := r.consumer(stream, name)
		if info == nil {
			return 0, false
		}

		open := int(info.NumPending) + info.NumAckPending

		return open, open == 0
	})
}

// faultyStore is a store whose barrier can be held, or fail.
type faultyStore struct {
	store.Store

	mu      sync.Mutex // guards the following
	barrier func(ctx context.Context) error
}

func (f *faultyStore) Barrier(ctx context.Context) error {
	f.mu.Lock()
	barrier := f.barrier
	f.mu.Unlock()

	if barrier != nil {
		return barrier(ctx)
	}

	return f.Store.Barrier(ctx)
}

func (f *faultyStore) setBarrier(barrier func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.barrier = barrier
}
