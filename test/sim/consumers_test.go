package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// opsStream is where subscriptions listen, outStream where triggers publish.
	opsStream = "OPS"
	outStream = "OUT"
	// idle is how long a consumer waits for a message, as the source asks; silence is when it misses the server's heartbeat.
	idle    = 3 * time.Second
	silence = 2 * time.Second
	// prefetch is how many messages a consumer holds at most.
	prefetch = 8
)

// durable is a consumer as the server keeps it.
type durable struct {
	config jetstream.ConsumerConfig
	// next is the first sequence that was never delivered; open, what was delivered and neither acknowledged nor ended.
	next uint64
	open map[uint64]*delivery
}

type delivery struct {
	times uint64
	due   time.Time // when it is delivered again
}

// consumers is JetStream as one generation sees it, for its subscriptions. What is not here nobody calls.
type consumers struct {
	jetstream.JetStream
	*edge

	gate *gate
}

// Consumer implements jetstream.JetStream.
func (c *consumers) Consumer(ctx context.Context, stream, name string) (found jetstream.Consumer, err error) {
	err = c.ask(ctx, c.gate, func() error {
		s, d, err := c.find(stream, name)
		if err == nil {
			found = c.consumer(s, d)
		}

		return err
	})

	return found, err
}

// CreateOrUpdateConsumer implements jetstream.JetStream.
func (c *consumers) CreateOrUpdateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (made jetstream.Consumer, err error) {
	err = c.ask(ctx, c.gate, func() error {
		s, d, err := c.find(stream, cfg.Durable)

		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			d = &durable{next: s.begin(&cfg), open: map[uint64]*delivery{}}
			s.consumers[cfg.Durable] = d
		case err != nil:
			return err
		}

		d.config = cfg
		made = c.consumer(s, d)

		return nil
	})

	return made, err
}

// DeleteConsumer implements jetstream.JetStream.
func (c *consumers) DeleteConsumer(ctx context.Context, stream, name string) error {
	return c.ask(ctx, c.gate, func() error {
		s, _, err := c.find(stream, name)
		if err == nil {
			delete(s.consumers, name)
			c.wake()
		}

		return err
	})
}

// String shows a delivery in a trace.
func (d *delivery) String() string {
	return fmt.Sprintf("%d times, again in %s", d.times, time.Until(d.due))
}

func (c *consumers) find(name, consumer string) (*stream, *durable, error) {
	s := c.streams[name]
	if s == nil {
		return nil, nil, jetstream.ErrStreamNotFound
	}

	if d := s.consumers[consumer]; d != nil {
		return s, d, nil
	}

	return s, nil, jetstream.ErrConsumerNotFound
}

// begin is the first sequence of a consumer that is made now.
func (s *stream) begin(cfg *jetstream.ConsumerConfig) uint64 {
	switch cfg.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
		return 1
	case jetstream.DeliverByStartTimePolicy:
		if at := slices.IndexFunc(s.messages, func(m *kept) bool { return !m.at.Before(*cfg.OptStartTime) }); at >= 0 {
			return s.messages[at].sequence
		}
	}

	return uint64(len(s.messages)) + 1
}

func (c *consumers) consumer(s *stream, d *durable) *consumer {
	return &consumer{of: c, stream: s, name: d.config.Durable, info: &jetstream.ConsumerInfo{Stream: s.name, Name: d.config.Durable, Config: d.config}}
}

// consumer is a durable one as the client library shows it.
type consumer struct {
	jetstream.Consumer

	of     *consumers
	stream *stream
	name   string
	info   *jetstream.ConsumerInfo
}

// CachedInfo implements jetstream.Consumer.
func (c *consumer) CachedInfo() *jetstream.ConsumerInfo { return c.info }

// Info implements jetstream.Consumer.
func (c *consumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	return c.info, c.of.ask(ctx, c.of.gate, func() error {
		_, _, err := c.of.find(c.stream.name, c.name)

		return err
	})
}

// Messages implements jetstream.Consumer.
func (c *consumer) Messages(...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	return &iterator{consumer: c, stopped: make(chan struct{})}, nil
}

// iterator pulls messages. Those that it holds when it stops are delivered again.
type iterator struct {
	jetstream.MessagesContext

	consumer *consumer
	buffer   []*handed
	once     sync.Once
	stopped  chan struct{}
}

// Stop implements jetstream.MessagesContext.
func (i *iterator) Stop() { i.once.Do(func() { close(i.stopped) }) }

// Next implements jetstream.MessagesContext.
func (i *iterator) Next(...jetstream.NextOpt) (jetstream.Msg, error) {
	began, e := time.Now(), i.consumer.of.edge

	for {
		select {
		case <-i.stopped:
			return nil, jetstream.ErrMsgIteratorClosed
		default:
		}

		e.mu.Lock()

		if len(i.buffer) == 0 && !e.away && i.consumer.of.gate.lives() {
			i.buffer = i.consumer.fetch()
		}

		if len(i.buffer) > 0 {
			msg := i.buffer[0]
			i.buffer = i.buffer[1:]
			e.mu.Unlock()

			return msg, nil
		}

		patience, ended := idle, nats.ErrTimeout

		_, _, err := i.consumer.of.find(i.consumer.stream.name, i.consumer.name)
		if e.away || err != nil { // nobody answers
			patience, ended = silence, jetstream.ErrNoHeartbeat
		}

		changed, wait := e.changed, i.consumer.due(patience-time.Since(began))
		e.mu.Unlock()

		if time.Since(began) >= patience {
			return nil, ended
		}

		select {
		case <-changed:
		case <-i.stopped:
		case <-time.After(wait):
		}
	}
}

// due is when a message is to be delivered again, at most in limit.
func (c *consumer) due(limit time.Duration) time.Duration {
	if d := c.stream.consumers[c.name]; d != nil {
		for _, o := range d.open {
			limit = min(limit, max(time.Until(o.due), time.Millisecond))
		}
	}

	return limit
}

// fetch takes what is to be delivered: again first, as a server does. Where there is chaos some are lost on the way, come twice,
// or overtake others.
func (c *consumer) fetch() (all []*handed) {
	d, e := c.stream.consumers[c.name], c.of.edge
	if d == nil {
		return nil
	}

	luck := func() bool { return e.rand.Float64() < e.chaos }
	take := func(sequence uint64, o *delivery) {
		o.times++
		o.due = time.Now().Add(d.config.AckWait)
		m := &handed{consumer: c, kept: c.stream.messages[sequence-1], times: o.times}

		if !luck() {
			all = append(all, m)
		}

		if luck() {
			all = append(all, m)
		}
	}

	for _, sequence := range slices.Sorted(maps.Keys(d.open)) {
		if o := d.open[sequence]; !o.due.After(time.Now()) && len(all) < prefetch {
			take(sequence, o)
		}
	}

	for ; d.next <= uint64(len(c.stream.messages)) && len(all) < prefetch; d.next++ {
		if matches(d.config.FilterSubject, c.stream.messages[d.next-1].Subject) {
			o := &delivery{}
			d.open[d.next] = o
			take(d.next, o)
		}
	}

	if luck() {
		e.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}

	return all
}

func matches(filter, subject string) bool {
	prefix, open := strings.CutSuffix(filter, ">")

	return filter == subject || open && strings.HasPrefix(subject, prefix)
}

// handed is a delivery.
type handed struct {
	jetstream.Msg

	consumer *consumer
	kept     *kept
	times    uint64
}

// Metadata implements jetstream.Msg.
func (m *handed) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{
		Sequence: jetstream.SequencePair{Stream: m.kept.sequence}, NumDelivered: m.times, Timestamp: m.kept.at,
		Stream: m.consumer.stream.name, Consumer: m.consumer.name,
	}, nil
}

func (m *handed) Data() []byte         { return m.kept.Data }
func (m *handed) Headers() nats.Header { return m.kept.Header }
func (m *handed) Subject() string      { return m.kept.Subject }
func (m *handed) Reply() string {
	return fmt.Sprintf("ack %s %s %d", m.consumer.stream.name, m.consumer.name, m.kept.sequence)
}

// DoubleAck implements jetstream.Msg.
func (m *handed) DoubleAck(ctx context.Context) error {
	return m.consumer.of.end(ctx, m.consumer.stream.name, m.consumer.name, m.kept.sequence)
}

// NakWithDelay implements jetstream.Msg. Nobody answers it.
func (m *handed) NakWithDelay(delay time.Duration) error {
	e := m.consumer.of.edge

	e.mu.Lock()
	defer e.mu.Unlock()

	if e.away || e.rand.Float64() < e.chaos || !m.consumer.of.gate.lives() {
		return nil
	}

	if _, d, err := m.consumer.of.find(m.consumer.stream.name, m.consumer.name); err == nil && d.open[m.kept.sequence] != nil {
		d.open[m.kept.sequence].due = time.Now().Add(delay)
	}

	return nil
}

// end is the acknowledgement of a message, or its end.
func (c *consumers) end(ctx context.Context, stream, name string, sequence uint64) error {
	if !c.gate.pass(beforeAck) {
		return errKilled
	}

	return c.ask(ctx, c.gate, func() error {
		if _, d, err := c.find(stream, name); err == nil {
			delete(d.open, sequence)
		}

		return nil
	})
}

// link is the connection itself, as one generation sees it.
type link struct{ of *consumers }

// IsConnected implements subscriptions.Link.
func (l link) IsConnected() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()

	return !l.of.away
}

// RequestWithContext implements subscriptions.Link: a message is ended.
func (l link) RequestWithContext(ctx context.Context, subject string, _ []byte) (*nats.Msg, error) {
	var (
		stream, name string
		sequence     uint64
	)

	if _, err := fmt.Sscanf(subject, "ack %s %s %d", &stream, &name, &sequence); err != nil {
		return nil, err
	}

	return &nats.Msg{}, l.of.end(ctx, stream, name, sequence)
}

// SubscribeSync implements subscriptions.Link. Core NATS is not simulated.
func (l link) SubscribeSync(string) (*nats.Subscription, error) { return nil, errors.ErrUnsupported }

// QueueSubscribeSync implements subscriptions.Link.
func (l link) QueueSubscribeSync(string, string) (*nats.Subscription, error) {
	return nil, errors.ErrUnsupported
}
