package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// dedupeWindow is how long the broker knows a message's id.
const dedupeWindow = 2 * time.Minute

// edge is a broker that loses, delays and refuses messages, and deduplicates as JetStream does: for a while.
type edge struct {
	mu    sync.Mutex // guards the following
	rand  *rand.Rand
	away  bool
	chaos float64
	ids   map[string]time.Time
	log   map[string][]*nats.Msg // by subject
	wrong []string
	bytes map[string][]byte
}

func newEdge(r *rand.Rand) *edge {
	return &edge{rand: r, ids: map[string]time.Time{}, log: map[string][]*nats.Msg{}, bytes: map[string][]byte{}}
}

type future struct {
	ok  chan *jetstream.PubAck
	err chan error
	msg *nats.Msg
}

func (f *future) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f *future) Err() <-chan error            { return f.err }
func (f *future) Msg() *nats.Msg               { return f.msg }

// publisher is the connection of one generation.
type publisher struct {
	*edge

	gate *gate
}

// PublishMsgAsync implements status.Publisher.
func (p *publisher) PublishMsgAsync(msg *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if !p.gate.pass(beforePublish) {
		return nil, errKilled
	}

	return p.publish(msg)
}

func (e *edge) publish(msg *nats.Msg) (jetstream.PubAckFuture, error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.away {
		return nil, errors.New("away")
	}

	f := &future{ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1), msg: msg}
	stored, acked := true, true
	delay := time.Duration(0)

	if e.rand.Float64() < e.chaos {
		stored, acked = e.rand.IntN(2) == 0, false
	}

	if e.rand.Float64() < e.chaos {
		delay = time.Duration(e.rand.IntN(12_000)) * time.Millisecond
	}

	if stored {
		e.store(msg)
	}

	answer := func() { f.ok <- &jetstream.PubAck{} }
	if !acked {
		answer = func() { f.err <- errors.New("lost") }
	}

	if delay == 0 {
		answer()
	} else {
		time.AfterFunc(delay, answer)
	}

	return f, nil
}

func (e *edge) store(msg *nats.Msg) {
	id := msg.Header["Nats-Msg-Id"][0]

	if before, known := e.bytes[id]; known && !bytes.Equal(before, msg.Data) {
		e.wrong = append(e.wrong, fmt.Sprintf("message id %s has two contents: %s and %s", id, before, msg.Data))
	}

	e.bytes[id] = bytes.Clone(msg.Data)

	if at, known := e.ids[id]; known && time.Since(at) < dedupeWindow {
		return
	}

	e.ids[id] = time.Now()
	e.log[msg.Subject] = append(e.log[msg.Subject], msg)
}

func (e *edge) set(away bool, chaos float64) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.away, e.chaos = away, chaos
}

// messages returns what is in the stream on a subject.
func (e *edge) messages(subject string) []*nats.Msg {
	e.mu.Lock()
	defer e.mu.Unlock()

	return append([]*nats.Msg(nil), e.log[subject]...)
}

func (e *edge) subjects() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()

	for s := range e.log {
		all = append(all, s)
	}

	return all
}
