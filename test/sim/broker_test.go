package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// dedupeWindow is how long the broker knows a message's id.
	dedupeWindow = 2 * time.Minute
	// askTimeout is how long the client library waits for an answer.
	askTimeout = 5 * time.Second
)

// errNoAnswer is what the client library says of a request that was lost, or whose answer was.
var errNoAnswer = errors.New("no answer (injected)")

// edge is a broker that loses, delays and refuses messages, and deduplicates as JetStream does: for a while.
type edge struct {
	mu    sync.Mutex // guards the following, and the streams
	rand  *rand.Rand
	away  bool
	chaos float64
	// full reports whether the stream of what triggers publish takes no more.
	full    bool
	streams map[string]*stream
	wrong   []string
	bytes   map[string][]byte
	// changed is closed when there may be something for a consumer.
	changed chan struct{}
}

// stream is one stream with the subjects of some prefixes.
type stream struct {
	name      string
	prefixes  []string
	ids       map[string]time.Time
	lastID    string
	messages  []*kept
	log       map[string][]*kept // by subject
	consumers map[string]*durable
}

// kept is a message of a stream; its sequence counts from 1.
type kept struct {
	*nats.Msg

	sequence uint64
	at       time.Time
}

func newEdge(r *rand.Rand) *edge {
	e := &edge{rand: r, streams: map[string]*stream{}, bytes: map[string][]byte{}, changed: make(chan struct{})}

	for name, prefixes := range map[string][]string{
		names.StatusStream(): {"gateway.vm.", "gateway.host."}, names.EventStream(): {"gateway.event."}, names.DeadStream(): {"gateway.dead."},
		outStream: {"out."}, opsStream: {opsPrefix},
	} {
		e.streams[name] = &stream{
			name: name, prefixes: prefixes, ids: map[string]time.Time{}, log: map[string][]*kept{}, consumers: map[string]*durable{},
		}
	}

	return e
}

type future struct {
	ok  chan *jetstream.PubAck
	err chan error
	msg *nats.Msg
}

func (f *future) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f *future) Err() <-chan error            { return f.err }
func (f *future) Msg() *nats.Msg               { return f.msg }

// publisher is the connection of one generation, for its sinks.
type publisher struct {
	*edge

	gate *gate
}

// PublishMsgAsync implements status.Publisher and events.Stream.
func (p *publisher) PublishMsgAsync(msg *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if !p.gate.pass(beforePublish) {
		return nil, errKilled
	}

	return p.publish(msg)
}

// LastHeader implements events.Stream.
func (p *publisher) LastHeader(ctx context.Context, name, _ string) (header nats.Header, err error) {
	err = p.ask(ctx, p.gate, func() error {
		if s := p.streams[name]; len(s.messages) > 0 {
			header = s.messages[len(s.messages)-1].Header
		}

		return nil
	})

	return header, err
}

// Publish implements actions.Publisher.
func (p *publisher) Publish(ctx context.Context, msg *nats.Msg) error {
	if !p.gate.pass(beforePublish) {
		return errKilled
	}

	return p.ask(ctx, p.gate, func() error {
		if p.full {
			return &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages exceeded"}
		}

		return p.store(msg)
	})
}

// ask is a request to the server: while it is away nobody answers, and otherwise the request or its answer may be lost. do
// is called with the lock held.
func (e *edge) ask(ctx context.Context, g *gate, do func() error) error {
	e.mu.Lock()

	before, after := e.rand.Float64() < e.chaos/2, e.rand.Float64() < e.chaos/2
	lost := e.away || before || !g.lives()

	var err error
	if !lost {
		err = do()
	}

	e.mu.Unlock()

	if !lost && !after {
		return err
	}

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(askTimeout):
		return errNoAnswer
	}
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

	failed := errors.New("lost")

	if stored {
		if err := e.store(msg); err != nil {
			acked, failed = false, err
		}
	}

	answer := func() { f.ok <- &jetstream.PubAck{} }
	if !acked {
		answer = func() { f.err <- failed }
	}

	if delay == 0 {
		answer()
	} else {
		time.AfterFunc(delay, answer)
	}

	return f, nil
}

// store puts a message into its stream, as a server does: one whose id is known is acknowledged and not stored again.
func (e *edge) store(msg *nats.Msg) error {
	s := e.streamOf(msg.Subject)
	id := msg.Header.Get(jetstream.MsgIDHeader)

	if id != "" {
		if before, known := e.bytes[id]; known && !bytes.Equal(before, msg.Data) {
			e.wrong = append(e.wrong, fmt.Sprintf("message id %s has two contents: %s and %s", id, before, msg.Data))
		}

		e.bytes[id] = bytes.Clone(msg.Data)

		if at, known := s.ids[id]; known && time.Since(at) < dedupeWindow {
			return nil
		}
	}

	if last := msg.Header.Get(jetstream.ExpectedLastMsgIDHeader); last != "" && last != s.lastID {
		return &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence, Description: "wrong last msg ID"}
	}

	if id != "" {
		s.ids[id], s.lastID = time.Now(), id
	}

	m := &kept{Msg: msg, sequence: uint64(len(s.messages)) + 1, at: time.Now()}
	s.messages = append(s.messages, m)
	s.log[msg.Subject] = append(s.log[msg.Subject], m)
	e.wake()

	return nil
}

func (e *edge) streamOf(subject string) *stream {
	for _, s := range e.streams {
		if slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(subject, p) }) {
			return s
		}
	}

	panic("no stream has the subject " + subject)
}

// wake is called with the lock held.
func (e *edge) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *edge) set(away bool, chaos float64, full bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.away, e.chaos, e.full = away, chaos, full
	e.wake()
}

// stored returns what is in a stream.
func (e *edge) stored(name string) []*kept {
	e.mu.Lock()
	defer e.mu.Unlock()

	return slices.Clone(e.streams[name].messages)
}

// bySubject returns what is in a stream, by subject.
func (e *edge) bySubject(name string) map[string][]*kept {
	e.mu.Lock()
	defer e.mu.Unlock()

	all := map[string][]*kept{}
	for subject, messages := range e.streams[name].log {
		all[subject] = messages[:len(messages):len(messages)]
	}

	return all
}
