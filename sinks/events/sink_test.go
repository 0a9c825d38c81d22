package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
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
	"gateway/sinks/events"
	"gateway/store"
)

const (
	soon = 20 * time.Second
	tick = 10 * time.Millisecond
)

var names = broker.Names{Prefix: "gateway"}

// The NATS server leaves a goroutine behind that waits for the source of a bucket, which is a stream that is gone with it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

// server is a broker that can be stopped and started again on its port and its files.
type server struct {
	t        *testing.T
	dir      string
	listen   string
	embedded *broker.Embedded
	js       jetstream.JetStream
}

func start(t *testing.T) *server {
	t.Helper()

	s := &server{t: t, dir: t.TempDir(), listen: "127.0.0.1:0"}
	s.start()
	s.listen = strings.TrimPrefix(s.embedded.URL(), "nats://")
	t.Cleanup(func() { s.embedded.Stop() })

	connection, err := broker.Connect(config.NATS{URL: s.embedded.URL()}, nil, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	s.js, err = jetstream.New(connection, jetstream.WithDefaultTimeout(time.Minute))
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

// stored returns all messages of a stream, oldest first.
func (s *server) stored(stream string) []*jetstream.RawStreamMsg {
	s.t.Helper()

	st, err := s.js.Stream(s.t.Context(), stream)
	require.NoError(s.t, err)

	info, err := st.Info(s.t.Context())
	require.NoError(s.t, err)

	var all []*jetstream.RawStreamMsg

	for n := info.State.FirstSeq; n > 0 && n <= info.State.LastSeq; n++ {
		msg, err := st.GetMsg(s.t.Context(), n)
		require.NoError(s.t, err)

		all = append(all, msg)
	}

	return all
}

// count returns how many messages a stream has; -1 while the server is away.
func (s *server) count(stream string) int {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()

	st, err := s.js.Stream(ctx, stream)
	if err != nil {
		return -1
	}

	return int(st.CachedInfo().State.Msgs) //nolint:gosec // few
}

func (s *server) waitFor(stream string, n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.count(stream) >= n }, soon, tick)
}

// run starts a sink and returns what stops it.
func run(t *testing.T, st store.Store, stream events.Stream, logger *zap.Logger) (stop func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	sink := events.New(events.Options{
		Journal: st.Journal(), Barrier: st, Stream: stream, Names: names, GatewayID: "home",
		Logger: logger, Metrics: sinks.NewMetrics(prometheus.NewRegistry()).For("events"),
	})

	go func() { done <- sink.Run(ctx) }()

	stopped := false
	stop = func() {
		if !stopped {
			stopped = true

			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)

	return stop
}

// entry is an event of a source.
func entry(i int, source, name, publish, data string) store.Entry {
	id := resources.EventID(source, name, strconv.Itoa(i))
	attributes, err := json.Marshal(resources.EventAttributes{
		ID: id, Source: source, Name: name, Type: "t", Subject: "s", Time: time.Now(), Received: time.Now(), DataContentType: "application/json",
		DeliveryID: strconv.Itoa(i), Digest: resources.Digest([]byte(data)), Bytes: int64(len(data)), Publish: publish,
		Headers: map[string]string{"x-secret-of-the-sender": "hunter2"},
	})
	if err != nil {
		panic(err)
	}

	return store.Entry{Class: store.ClassEvent, Source: source, Name: name, EventID: id, Key: strconv.Itoa(i), Attributes: attributes, Data: []byte(data)}
}

func dead(i int, source, name, publish, data string) store.Entry {
	e := entry(i, source, name, publish, data)
	e.Class, e.Key, e.Reason, e.Message = store.ClassDead, "", "Invalid", "it is\nno JSON"

	return e
}

func add(t *testing.T, st store.Store, entries ...store.Entry) {
	t.Helper()

	for _, e := range entries {
		require.NoError(t, st.Journal().Append(e))
	}
}

// ids returns the ids of the events in messages.
func ids(t *testing.T, messages []*jetstream.RawStreamMsg) []string {
	t.Helper()

	all := make([]string, 0, len(messages))

	for _, msg := range messages {
		var e event.Event

		require.NoError(t, json.Unmarshal(msg.Data, &e))
		require.NoError(t, e.Validate())

		all = append(all, e.ID())
	}

	return all
}

func idsOf(entries []store.Entry) []string {
	all := make([]string, len(entries))
	for i := range entries {
		all[i] = entries[i].EventID
	}

	return all
}

func TestAnEventIsPublishedAsACloudEventWithoutWhatItsDeclarationKeepsBack(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())

	apply := entry(3, "webhook", "inbox", "full", "")
	apply.Data = nil // what an apply rule takes in is not in the journal
	big := entry(5, "webhook", "big", "full", strings.Repeat("x", 100_000))

	add(t, st, entry(1, "webhook", "deploy", "attributes", `{"a":1}`), entry(2, "webhook", "deploy", "full", `{"a":"<b>"}`), apply,
		entry(4, "subscription", "raw", "full", "\xff\x00"), big,
		store.Entry{Class: store.ClassRevision, Source: "api", Object: "VM/web-1", Data: []byte("not for others")})
	s.waitFor(names.EventStream(), 5)

	messages := s.stored(names.EventStream())
	require.Len(t, messages, 5)
	require.Equal(t, "gateway.event.webhook.deploy", messages[0].Subject)
	require.Equal(t, []string{"1"}, messages[0].Header["Gateway-Hops"], "the guard of the next gateway")

	want := []string{"", `{"a":"<b>"}`, "", "\xff\x00", ""}

	for i, msg := range messages {
		var e event.Event

		require.NoError(t, json.Unmarshal(msg.Data, &e))
		require.NoError(t, e.Validate())
		require.NotContains(t, string(msg.Data), "hunter2")

		if strings.HasPrefix(want[i], "{") {
			require.JSONEq(t, want[i], string(e.Data()))
		} else {
			require.Equal(t, want[i], string(e.Data()), "event %d", i)
		}
	}

	require.Contains(t, string(messages[4].Data), `"gatewaycut":true`, "data that the journal cut is not published as if it were whole")
}

func TestDeadLettersCarryTheirReasonAndNoSecretOfAnApply(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())
	add(t, st, dead(1, "subscription", "commands", "full", `{"a":`), dead(2, "webhook", "inbox", "full", `{"password":"hunter2"}`))
	s.waitFor(names.DeadStream(), 2)

	messages := s.stored(names.DeadStream())
	require.Equal(t, "gateway.dead.subscription.commands", messages[0].Subject)
	require.Equal(t, []string{"Invalid: it is no JSON"}, messages[0].Header["Gateway-Reason"])

	var e event.Event

	require.NoError(t, json.Unmarshal(messages[0].Data, &e))
	require.Equal(t, `{"a":`, string(e.Data()), "a copy of the message")
	require.NotContains(t, string(messages[1].Data), "password")
}

func TestCaseS60NamesThatAreNoSubjectTokens(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())

	all := []string{"a.b", "*", ">", "a b", "", "/srv/x/ü.yaml", "nul\x00", strings.Repeat("/very/long", 500)}
	for i, name := range all {
		add(t, st, entry(i, "file", name, "attributes", ""))
	}

	s.waitFor(names.EventStream(), len(all))

	subjects := map[string]bool{}

	for i, msg := range s.stored(names.EventStream()) {
		require.NoError(t, broker.ValidateSubject(msg.Subject, false))
		require.Equal(t, 4, len(strings.Split(msg.Subject, ".")), msg.Subject)

		subjects[msg.Subject] = true

		var e event.Event

		require.NoError(t, json.Unmarshal(msg.Data, &e))
		require.NoError(t, e.Validate())
		require.Equal(t, all[i], e.Extensions()["gatewayname"], "the original is in the event")
	}

	require.Len(t, subjects, len(all))
}

func TestPublishingGoesOnBehindTheLastMessage(t *testing.T) {
	s, st := start(t), store.NewMemory("home")

	var entries []store.Entry

	for i := range 1500 { // several pages and batches
		if i%100 == 7 {
			entries = append(entries, dead(i, "subscription", "c", "attributes", "{}"))
		} else {
			entries = append(entries, entry(i, "webhook", "w", "attributes", "{}"))
		}
	}

	add(t, st, entries[:1000]...)

	stop := run(t, st, events.JetStream{JetStream: s.js}, zap.NewNop())
	s.waitFor(names.EventStream(), 990)
	stop()

	// What others publish there does not matter.
	_, err := s.js.Publish(t.Context(), "gateway.event.webhook.w", []byte("{}"))
	require.NoError(t, err)

	counted := &counting{Stream: events.JetStream{JetStream: s.js}}

	run(t, st, counted, zap.NewNop())
	add(t, st, entries[1000:]...)
	s.waitFor(names.EventStream(), 1485+1)
	s.waitFor(names.DeadStream(), 15)
	require.LessOrEqual(t, counted.sent.Load(), int64(500), "what was acknowledged is not sent again")
}

type counting struct {
	events.Stream

	sent atomic.Int64
}

func (c *counting) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	c.sent.Add(1)

	return c.Stream.PublishMsgAsync(msg, opts...)
}

func TestAJournalThatStartsAgainIsPublishedFromItsBeginning(t *testing.T) {
	s := start(t)

	var entries []store.Entry
	for i := range 60 {
		entries = append(entries, entry(i, "webhook", "w", "attributes", "{}"))
	}

	old := store.NewMemory("home")
	add(t, old, entries[:20]...)

	stop := run(t, old, events.JetStream{JetStream: s.js}, zap.NewNop())
	s.waitFor(names.EventStream(), 20)
	stop()

	// The new journal has passed the old number before NATS could be asked.
	lost := store.NewMemory("home")
	add(t, lost, entries[20:]...)
	run(t, lost, events.JetStream{JetStream: s.js}, zap.NewNop())
	s.waitFor(names.EventStream(), 60)
	require.Equal(t, idsOf(entries), ids(t, s.stored(names.EventStream())))
}

func TestNATSAwayThenBackLosesNothingAndKeepsTheOrder(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	core, logs := observer.New(zap.WarnLevel)
	run(t, st, events.JetStream{JetStream: s.js}, zap.New(core))

	var entries []store.Entry
	for i := range 3000 {
		entries = append(entries, entry(i, "webhook", "w", "attributes", "{}"))
	}

	for round := range 3 {
		part := entries[round*1000 : (round+1)*1000]
		add(t, st, part[:500]...)
		s.waitFor(names.EventStream(), round*1000+100) // in the middle of it
		s.embedded.Stop()
		add(t, st, part[500:]...)
		s.start()
	}

	s.waitFor(names.EventStream(), len(entries))
	require.Equal(t, idsOf(entries), ids(t, s.stored(names.EventStream())))
	require.LessOrEqual(t, logs.Len(), 5, "lines are bounded: %v", logs.All())
}

// TestAConnectionThatIsCutInTheMiddleOfABatchLeavesNoGap: what the client had written to a connection that is then cut may
// be lost, while the rest of the batch goes through the next one.
func TestAConnectionThatIsCutInTheMiddleOfABatchLeavesNoGap(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	cut := &cutting{Stream: events.JetStream{JetStream: s.js}}

	var entries []store.Entry
	for i := range 400 {
		entries = append(entries, entry(i, "webhook", "w", "attributes", "{}"))
	}

	add(t, st, entries...)
	run(t, st, cut, zap.NewNop())
	s.waitFor(names.EventStream(), len(entries))
	require.Equal(t, idsOf(entries), ids(t, s.stored(names.EventStream())))
	require.True(t, cut.done.Load())
}

// cutting loses the messages 50 to 59, once, as a connection does.
type cutting struct {
	events.Stream

	sent int
	done atomic.Bool
}

type never struct{ jetstream.PubAckFuture }

func (never) Ok() <-chan *jetstream.PubAck { return nil }

func (never) Err() <-chan error {
	c := make(chan error, 1)
	c <- nats.ErrDisconnected

	return c
}

func (c *cutting) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if c.sent++; c.sent > 50 && c.sent <= 60 {
		c.done.Store(true)

		return never{}, nil
	}

	return c.Stream.PublishMsgAsync(msg, opts...)
}

// refusing is a server whose limit of a payload is small.
type refusing struct{ events.Stream }

func (r refusing) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if len(msg.Data) > 1000 {
		return nil, nats.ErrMaxPayload
	}

	return r.Stream.PublishMsgAsync(msg, opts...)
}

func TestAMessageThatIsTooLargeHoldsUpNothing(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	run(t, st, refusing{events.JetStream{JetStream: s.js}}, zap.NewNop())
	add(t, st, entry(1, "webhook", "w", "full", `"`+strings.Repeat("x", 2000)+`"`), entry(2, "webhook", strings.Repeat("y", 2000), "full", "1"), entry(3, "webhook", "w", "full", "3"))
	s.waitFor(names.EventStream(), 2)

	messages := s.stored(names.EventStream())
	require.Contains(t, string(messages[0].Data), `"gatewaycut":true`)
	require.Contains(t, string(messages[1].Data), `"data":3`)
}

// asking counts the questions to a journal.
type asking struct {
	store.Journal

	queries atomic.Int64
}

func (a *asking) Query(ctx context.Context, q store.Query) ([]store.Entry, error) {
	a.queries.Add(1)

	return a.Journal.Query(ctx, q)
}

func TestEntriesThatNobodyIsToldOfCostNoRounds(t *testing.T) {
	s, st := start(t), store.NewMemory("home")
	journal := &asking{Journal: st.Journal()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	sink := events.New(events.Options{
		Journal: journal, Barrier: st, Stream: events.JetStream{JetStream: s.js}, Names: names, GatewayID: "home",
		Logger: zap.NewNop(), Metrics: sinks.NewMetrics(prometheus.NewRegistry()).For("events"),
	})

	go func() { done <- sink.Run(ctx) }()

	add(t, st, entry(1, "webhook", "w", "full", "1"))
	s.waitFor(names.EventStream(), 1)

	for i := range 10 {
		add(t, st, store.Entry{Class: store.ClassRevision, Source: "api", Object: fmt.Sprint("VM/", i)})
	}

	require.Never(t, func() bool { return journal.queries.Load() > 100 }, 200*time.Millisecond, tick)
	cancel()
	require.NoError(t, <-done)
}

// gone is a stream that can't be reached.
type gone struct{ events.Stream }

func (gone) LastHeader(context.Context, string, string) (nats.Header, error) {
	return nil, errors.Join(net.ErrClosed)
}

func TestASinkEndsWhileNATSIsAway(t *testing.T) {
	run(t, store.NewMemory("home"), gone{}, zap.NewNop())()
}

func TestAJournalThatWasRestoredIsNotPublishedAgain(t *testing.T) {
	s := start(t)

	var entries []store.Entry
	for i := range 60 {
		entries = append(entries, entry(i, "webhook", "w", "attributes", "{}"))
	}

	old := store.NewMemory("home")
	add(t, old, entries[:40]...)

	stop := run(t, old, events.JetStream{JetStream: s.js}, zap.NewNop())
	s.waitFor(names.EventStream(), 40)
	stop()

	restored := store.NewMemory("home")
	add(t, restored, entries[:20]...)
	add(t, restored, store.Entry{Class: store.ClassCommand, Source: store.SourceStore, Name: "restore"})
	add(t, restored, entries[40:]...)
	run(t, restored, events.JetStream{JetStream: s.js}, zap.NewNop())
	s.waitFor(names.EventStream(), 60)
	require.Equal(t, idsOf(entries), ids(t, s.stored(names.EventStream())))
}
