package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sinks/status"
)

// edge is a broker that loses, delays and refuses messages, and deduplicates as JetStream does.
type edge struct {
	mu    sync.Mutex
	away  bool
	chaos *rand.Rand
	ids   map[string][]byte
	log   map[string][]*nats.Msg // by subject
	sent  int
}

func newEdge() *edge { return &edge{ids: map[string][]byte{}, log: map[string][]*nats.Msg{}} }

type future struct {
	ok  chan *jetstream.PubAck
	err chan error
	msg *nats.Msg
}

func (f *future) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f *future) Err() <-chan error            { return f.err }
func (f *future) Msg() *nats.Msg               { return f.msg }

func (e *edge) PublishMsgAsync(msg *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.sent++

	if e.away {
		return nil, errors.New("away")
	}

	f := &future{ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1), msg: msg}
	fail := e.chaos != nil && e.chaos.IntN(3) == 0

	if !fail || e.chaos.IntN(2) == 0 { // an acknowledgement can be lost after the message was stored
		id := msg.Header["Nats-Msg-Id"][0]
		if _, known := e.ids[id]; !known {
			e.ids[id] = msg.Data
			e.log[msg.Subject] = append(e.log[msg.Subject], msg)
		} else if string(e.ids[id]) != string(msg.Data) {
			panic("one id with two contents: " + id)
		}
	}

	if fail {
		f.err <- errors.New("lost")
	} else {
		f.ok <- &jetstream.PubAck{}
	}

	return f, nil
}

func (e *edge) setAway(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.away = away
}

// messages returns what is in the stream on a subject.
func (e *edge) messages(subject string) []*nats.Msg {
	e.mu.Lock()
	defer e.mu.Unlock()

	return append([]*nats.Msg(nil), e.log[subject]...)
}

type open struct{}

func (open) Barrier(context.Context) error { return nil }

func newState() state.State {
	return state.WrapCore(namespaced.NewState(func(ns string) state.CoreState {
		return inmem.NewStateWithOptions(inmem.WithHistoryInitialCapacity(1024), inmem.WithHistoryMaxCapacity(4096), inmem.WithHistoryGap(51))(ns)
	}))
}

// run starts a sink in the test's bubble; it ends with the test.
func run(t *testing.T, st state.State, p status.Publisher) {
	t.Helper()
	t.Cleanup(start(t, st, p))
}

// start starts a sink, and returns what ends it.
func start(t *testing.T, st state.State, p status.Publisher) (stop func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	sink := status.New(status.Options{
		State: st, Barrier: open{}, Publisher: p, Names: broker.Names{Prefix: "gateway"}, GatewayID: "home",
		Logger: zap.NewNop(), Metrics: sinks.NewMetrics(prometheus.NewRegistry()).For("status"),
	})

	go func() { done <- sink.Run(ctx) }()

	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func create(t *testing.T, st state.State, name, uid string) *resources.VMStatus {
	t.Helper()

	vm := resources.NewVMStatus(name)
	vm.TypedSpec().UID, vm.TypedSpec().State = uid, "stopped"
	require.NoError(t, st.Create(t.Context(), vm, state.WithCreateOwner("vm")))

	return vm
}

func change(t *testing.T, st state.State, name, to string) {
	t.Helper()

	_, err := st.UpdateWithConflicts(t.Context(), resources.NewVMStatus(name).Metadata(), func(r resource.Resource) error {
		r.(*resources.VMStatus).TypedSpec().State = to

		return nil
	}, state.WithUpdateOwner("vm"))
	require.NoError(t, err)
}

func bury(t *testing.T, st state.State, name, uid string) {
	t.Helper()

	r, err := st.Get(t.Context(), resources.NewVMStatus(name).Metadata())
	require.NoError(t, err)

	stone := resources.NewTombstone(uid)
	*stone.TypedSpec() = resources.TombstoneSpec{Kind: "VM", Name: name, UID: uid, Number: r.Metadata().Version().Value() + 1, Time: time.Now()}
	require.NoError(t, st.Create(t.Context(), stone, state.WithCreateOwner("vm")))
	require.NoError(t, st.Destroy(t.Context(), r.Metadata(), state.WithDestroyOwner("vm")))
}

type published struct {
	ID, Type, Subject, Source string
	Data                      struct{ Name, State string }
}

func decode(t *testing.T, msg *nats.Msg) (p published) {
	t.Helper()
	require.NoError(t, json.Unmarshal(msg.Data, &p))

	return p
}

func TestAStatusIsPublishedAsACloudEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := newState(), newEdge()
		create(t, st, "web-1", "u1")
		run(t, st, e)
		synctest.Wait()

		msgs := e.messages("gateway.vm.web-1.status")
		require.Len(t, msgs, 1)
		require.Equal(t, []string{"u1/1"}, msgs[0].Header["Nats-Msg-Id"])
		require.Equal(t, []string{"application/cloudevents+json"}, msgs[0].Header["content-type"])

		p := decode(t, msgs[0])
		require.Equal(t, published{ID: "u1/1", Type: "gateway.vm.status.v1", Subject: "vm/web-1", Source: "/gateway/home",
			Data: struct{ Name, State string }{"web-1", "stopped"}}, p)
	})
}

func TestChangesAreCoalescedWhileTheBrokerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := newState(), newEdge()
		e.setAway(true)
		create(t, st, "web-1", "u1")
		run(t, st, e)

		for i := range 100 {
			change(t, st, "web-1", fmt.Sprint("s", i))
			time.Sleep(time.Second)
		}

		e.setAway(false)
		time.Sleep(20 * time.Second)

		msgs := e.messages("gateway.vm.web-1.status")
		require.Len(t, msgs, 1)
		require.Equal(t, "s99", decode(t, msgs[0]).Data.State)
		require.Less(t, e.sent, 40, "attempts are paced")
	})
}

func TestTheLastMessageOfADeletedVMComesBeforeItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := newState(), newEdge()
		create(t, st, "web-1", "u1")
		run(t, st, e)
		synctest.Wait()

		bury(t, st, "web-1", "u1")
		create(t, st, "web-1", "u2")
		time.Sleep(time.Minute)

		var types []string
		for _, msg := range e.messages("gateway.vm.web-1.status") {
			types = append(types, decode(t, msg).Type+" "+msg.Header["Nats-Msg-Id"][0])
		}

		require.Equal(t, []string{"gateway.vm.status.v1 u1/1", "gateway.vm.deleted.v1 u1/2", "gateway.vm.status.v1 u2/1"}, types)

		list, err := st.List(t.Context(), resources.NewTombstone("").Metadata())
		require.NoError(t, err)
		require.Empty(t, list.Items, "an acknowledged tombstone is gone")
	})
}

// refusing is a state that can't be written for a while.
type refusing struct {
	state.State

	until time.Time
}

func (r *refusing) Destroy(ctx context.Context, ptr resource.Pointer, opts ...state.DestroyOption) error {
	if time.Now().Before(r.until) {
		return errors.New("the store can't be written")
	}

	return r.State.Destroy(ctx, ptr, opts...)
}

func TestATombstoneGoesWhenTheStoreCanBeWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := &refusing{newState(), time.Now().Add(time.Minute)}, newEdge()
		create(t, st, "web-1", "u1")
		run(t, st, e)
		synctest.Wait()

		r, err := st.Get(t.Context(), resources.NewVMStatus("web-1").Metadata())
		require.NoError(t, err)

		stone := resources.NewTombstone("u1")
		*stone.TypedSpec() = resources.TombstoneSpec{Kind: "VM", Name: "web-1", UID: "u1", Number: 2, Time: time.Now()}
		require.NoError(t, st.Create(t.Context(), stone, state.WithCreateOwner("vm")))
		require.NoError(t, st.State.Destroy(t.Context(), r.Metadata(), state.WithDestroyOwner("vm")))
		time.Sleep(2 * time.Minute)

		list, err := st.List(t.Context(), resources.NewTombstone("").Metadata())
		require.NoError(t, err)
		require.Empty(t, list.Items)
		require.Len(t, e.messages("gateway.vm.web-1.status"), 2)
	})
}

// A process that starts while the status can't be taken away knows by the tombstone that the last word was said.
func TestATombstoneStaysAsLongAsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := newState(), newEdge()
		left := create(t, st, "web-1", "u1")

		stone := resources.NewTombstone("u1")
		*stone.TypedSpec() = resources.TombstoneSpec{Kind: "VM", Name: "web-1", UID: "u1", Number: 2, Time: time.Now()}
		require.NoError(t, st.Create(t.Context(), stone, state.WithCreateOwner("vm")))

		for _, other := range []string{"web-2", "web-3"} { // one after the start of each process
			stop := start(t, st, e)

			time.Sleep(time.Minute)
			create(t, st, other, other)
			time.Sleep(time.Minute)
			require.Len(t, e.messages("gateway.vm."+other+".status"), 1, "nobody waits for it")
			stop()
		}

		require.Len(t, e.messages("gateway.vm.web-1.status"), 1)
		require.Equal(t, "gateway.vm.deleted.v1", decode(t, e.messages("gateway.vm.web-1.status")[0]).Type)

		run(t, st, e)
		time.Sleep(time.Minute)
		require.NoError(t, st.Destroy(t.Context(), left.Metadata(), state.WithDestroyOwner("vm")))
		synctest.Wait()

		list, err := st.List(t.Context(), resources.NewTombstone("").Metadata())
		require.NoError(t, err)
		require.Empty(t, list.Items)
		require.Len(t, e.messages("gateway.vm.web-1.status"), 1)
	})
}

// A tombstone may be written once more after its message was acknowledged: it goes, and nothing is told twice.
func TestATombstoneThatIsWrittenAgainGoesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, e := newState(), newEdge()
		create(t, st, "web-1", "u1")
		run(t, st, e)
		synctest.Wait()
		bury(t, st, "web-1", "u1")
		time.Sleep(time.Minute)

		stone := resources.NewTombstone("u1")
		*stone.TypedSpec() = resources.TombstoneSpec{Kind: "VM", Name: "web-1", UID: "u1", Number: 2, Time: time.Now()}
		require.NoError(t, st.Create(t.Context(), stone))
		time.Sleep(time.Minute)

		list, err := st.List(t.Context(), resources.NewTombstone("").Metadata())
		require.NoError(t, err)
		require.Empty(t, list.Items)
		require.Len(t, e.messages("gateway.vm.web-1.status"), 2)
	})
}

func TestWhateverIsLostTheNewestArrivesInOrder(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			st, e := newState(), newEdge()
			e.chaos = rand.New(rand.NewPCG(seed, 2))
			uids, final := map[string]string{}, map[string]string{}

			run(t, st, e)

			for i := range 200 {
				name := fmt.Sprint("vm-", rnd.IntN(5))

				switch {
				case uids[name] == "":
					uids[name] = fmt.Sprint("u", i)
					create(t, st, name, uids[name])
					final[name] = "stopped"
				case rnd.IntN(8) == 0:
					bury(t, st, name, uids[name])
					uids[name], final[name] = "", ""
				default:
					final[name] = fmt.Sprint("s", i)
					change(t, st, name, final[name])
				}

				time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
			}

			e.mu.Lock()
			e.chaos = nil
			e.mu.Unlock()
			time.Sleep(5 * time.Minute)

			for name, want := range final {
				msgs := e.messages("gateway.vm." + name + ".status")
				last := map[string]int{}
				gone := map[string]bool{}

				for _, msg := range msgs {
					uid, number, _ := strings.Cut(msg.Header["Nats-Msg-Id"][0], "/")
					n, err := strconv.Atoi(number)
					require.NoError(t, err)
					require.Greater(t, n, last[uid], "numbers of an object rise")
					require.False(t, gone[uid], "nothing comes after the deletion")
					last[uid] = n
					gone[uid] = decode(t, msg).Type == "gateway.vm.deleted.v1"
				}

				require.Equal(t, want, decode(t, msgs[len(msgs)-1]).Data.State, "seed %d, %s", seed, name)
			}
		})
	}
}
