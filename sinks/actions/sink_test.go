package actions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sinks/actions"
	"gateway/store"
)

const (
	soon = 20 * time.Second
	tick = 10 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a sink; it ends with the test, or when stop is called.
func run(t *testing.T, st store.Store, p actions.Publisher, logger *zap.Logger) (stop func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	sink := actions.New(actions.Options{
		State: st.State(), Barrier: st, Journal: st.Journal(), Publisher: p, Names: broker.Names{Prefix: "gateway"},
		Logger: logger, Metrics: sinks.NewMetrics(prometheus.NewRegistry()).For("actions"),
	})

	go func() { done <- sink.Run(ctx) }()

	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)

	return stop
}

// ask creates an action that is to be published.
func ask(t *testing.T, st store.Store, id, subject, body string) {
	t.Helper()

	action := resources.NewAction(id)
	*action.TypedSpec() = resources.ActionSpec{
		Verb: resources.ActionPublish, Subject: subject, Body: resources.JSON(body), By: "trigger:t", Cause: "e1", Hops: 2,
	}
	action.Metadata().Finalizers().Add(action.TypedSpec().Finalizer())
	require.NoError(t, st.State().Create(t.Context(), action, state.WithCreateOwner("trigger")))
}

// handled reports whether nobody waits for an action any more.
func handled(t *testing.T, st store.Store, id string) bool {
	t.Helper()

	r, err := st.State().Get(t.Context(), resources.NewAction(id).Metadata())
	require.NoError(t, err)

	return r.Metadata().Finalizers().Empty()
}

func entries(t *testing.T, st store.Store, class store.Class) []store.Entry {
	t.Helper()

	all, err := st.Journal().Query(t.Context(), store.Query{Classes: []store.Class{class}, Limit: 100_000})
	require.NoError(t, err)

	return all
}

// wire is a Publisher that fails as it is told.
type wire struct {
	mu       sync.Mutex // guards the following
	fail     func(subject string) error
	sent     []string
	attempts map[string]int
}

func (w *wire) Publish(_ context.Context, msg *nats.Msg) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.attempts == nil {
		w.attempts = map[string]int{}
	}

	w.attempts[msg.Subject]++

	if w.fail != nil {
		if err := w.fail(msg.Subject); err != nil {
			return err
		}
	}

	w.sent = append(w.sent, msg.Subject+" "+msg.Header.Get("Nats-Msg-Id"))

	return nil
}

func (w *wire) setFail(fail func(string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.fail = fail
}

func (w *wire) messages() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return append([]string{}, w.sent...)
}

func TestASubjectThatFailsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}
		w.setFail(func(subject string) error {
			if strings.HasPrefix(subject, "bad") {
				return errors.New("no answer")
			}

			return nil
		})

		for i := range 40 { // more than are in flight at once
			ask(t, st, fmt.Sprintf("a%02d", i), fmt.Sprintf("bad.%d", i), "1")
		}

		ask(t, st, "z1", "good", "1")
		run(t, st, w, zap.NewNop())
		time.Sleep(time.Second)
		require.Equal(t, []string{"good z1"}, w.messages())

		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		require.Less(t, w.attempts["bad.0"], 40, "attempts are paced")
		w.mu.Unlock()
		require.Empty(t, entries(t, st, store.ClassDead), "a server that is away is waited for")

		w.setFail(nil)
		time.Sleep(time.Minute)
		require.Len(t, w.messages(), 41)
	})
}

func TestMessagesOfASubjectKeepTheOrderOfTheirActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}
		failures := 0
		w.setFail(func(string) error {
			if failures++; failures%3 != 0 {
				return errors.New("lost")
			}

			return nil
		})

		var want []string

		add := func(i int) {
			id := fmt.Sprintf("%02d", (i*37)%100) // ids say nothing of the order
			ask(t, st, id, "s", "1")
			want = append(want, "s "+id)
			time.Sleep(time.Millisecond)
		}

		for i := range 20 {
			add(i)
		}

		stop := run(t, st, w, zap.NewNop())

		for i := 20; i < 40; i++ {
			add(i)
		}

		time.Sleep(5 * time.Second)
		stop()
		run(t, st, w, zap.NewNop())
		time.Sleep(10 * time.Minute)
		require.Equal(t, want, w.messages())
	})
}

func TestAMessageThatIsRefusedAgainAndAgainIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}
		w.setFail(func(subject string) error {
			switch subject {
			case "big":
				return nats.ErrMaxPayload
			case "full":
				return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages exceeded"})
			case "away":
				return &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}
			}

			return nil
		})

		for _, subject := range []string{"big", "full", "away", "fine"} {
			ask(t, st, subject, subject, "1")
		}

		run(t, st, w, zap.NewNop())
		time.Sleep(3 * time.Minute)
		require.True(t, handled(t, st, "big"))
		require.True(t, handled(t, st, "full"))
		require.False(t, handled(t, st, "away"))
		require.Len(t, entries(t, st, store.ClassDead), 2)
		w.mu.Lock()
		require.Equal(t, 8, w.attempts["big"])
		w.mu.Unlock()
	})
}

func TestTheActionsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}
		w.setFail(func(string) error { return errors.New("away") })

		for i := range 10_100 {
			ask(t, st, fmt.Sprintf("%05d", i), fmt.Sprintf("s.%d", i%100), "1")
		}

		run(t, st, w, zap.NewNop())
		time.Sleep(time.Hour)
		require.Len(t, entries(t, st, store.ClassDead), 100)
	})
}

func TestWhatNobodyMayPublishIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}

		bad := []string{"", "a..b", "a b", "a.*", "gateway.vm.a.status", "$JS.API.STREAM.DELETE.OPS", "nul\x00", strings.Repeat("x", 5000)}
		for i, subject := range bad {
			ask(t, st, fmt.Sprint(i), subject, "1")
		}

		run(t, st, w, zap.NewNop())
		synctest.Wait()

		for i := range bad {
			require.True(t, handled(t, st, fmt.Sprint(i)))
		}

		require.Empty(t, w.messages())
		require.Len(t, entries(t, st, store.ClassDead), len(bad))
		require.Equal(t, "trigger:t", entries(t, st, store.ClassDead)[0].Name)
	})
}

func TestAnActionThatSomebodyElseFinishedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := store.NewMemory("home"), &wire{}
		w.setFail(func(string) error { return errors.New("away") })
		ask(t, st, "a", "s", "1")
		run(t, st, w, zap.NewNop())
		synctest.Wait()
		require.NoError(t, st.State().RemoveFinalizer(t.Context(), resources.NewAction("a").Metadata(), resources.FinalizerPublish))
		w.setFail(nil)
		time.Sleep(time.Minute)
		require.Empty(t, w.messages())
	})
}

// server is a broker that can be stopped and started again on its port and its files.
type server struct {
	t        *testing.T
	dir      string
	listen   string
	embedded *broker.Embedded
	conn     *nats.Conn
	js       jetstream.JetStream
}

func start(t *testing.T) *server {
	t.Helper()

	s := &server{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	s.start()
	s.listen = strings.TrimPrefix(s.embedded.URL(), "nats://")
	t.Cleanup(func() { s.embedded.Stop() })

	var err error

	s.conn, err = broker.Connect(config.NATS{URL: s.embedded.URL()}, nil, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(s.conn.Close)

	s.js, err = jetstream.New(s.conn, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)

	_, err = s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DEPLOYS", Subjects: []string{"deploys.>"}})
	require.NoError(t, err)

	return s
}

func (s *server) start() {
	s.t.Helper()

	var err error

	s.embedded, err = broker.StartEmbedded(broker.EmbeddedOptions{Listen: s.listen, DataDir: s.dir})
	require.NoError(s.t, err)
}

func TestMessagesReachStreamsAndCoreSubscribers(t *testing.T) {
	s, st := start(t), store.NewMemory("home")

	sub, err := s.conn.SubscribeSync("plain.>")
	require.NoError(t, err)
	require.NoError(t, s.conn.Flush())

	ask(t, st, "stored", "deploys.seen", `{"n":1}`)
	ask(t, st, "core", "plain.seen", `{"n":2}`)
	run(t, st, actions.NATS{Connection: s.conn, JetStream: s.js}, zap.NewNop())
	require.Eventually(t, func() bool { return handled(t, st, "stored") && handled(t, st, "core") }, soon, tick)

	stream, err := s.js.Stream(t.Context(), "DEPLOYS")
	require.NoError(t, err)

	kept, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(kept.Data))
	require.Equal(t, []string{"stored"}, kept.Header["Nats-Msg-Id"])
	require.Equal(t, []string{"3"}, kept.Header["Gateway-Hops"])

	msg, err := sub.NextMsg(soon)
	require.NoError(t, err)
	require.Equal(t, `{"n":2}`, string(msg.Data))
	require.Equal(t, []string{"3"}, msg.Header["Gateway-Hops"])

	_, err = sub.NextMsg(200 * time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout, "exactly once")
	require.Len(t, entries(t, st, store.ClassPublished), 2)
}

func TestMessagesWaitWhileNATSIsAway(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	core, logs := observer.New(zap.WarnLevel)

	s.embedded.Stop()
	run(t, st, actions.NATS{Connection: s.conn, JetStream: s.js}, zap.New(core))

	for i := range 50 {
		ask(t, st, fmt.Sprint(i), fmt.Sprintf("deploys.%d", i), "1")
	}

	require.Eventually(t, func() bool { return logs.Len() > 0 }, soon, tick)
	s.start()
	require.Eventually(t, func() bool {
		for i := range 50 {
			if !handled(t, st, fmt.Sprint(i)) {
				return false
			}
		}

		return true
	}, 2*soon, tick)

	stream, err := s.js.Stream(t.Context(), "DEPLOYS")
	require.NoError(t, err)
	require.EqualValues(t, 50, stream.CachedInfo().State.Msgs)
	require.LessOrEqual(t, logs.Len(), 4, "lines are bounded")

	var left []resource.Resource

	list, err := st.State().List(t.Context(), resources.NewAction("").Metadata())
	require.NoError(t, err)

	for _, r := range list.Items {
		if !r.Metadata().Finalizers().Empty() {
			left = append(left, r)
		}
	}

	require.Empty(t, left)
}
