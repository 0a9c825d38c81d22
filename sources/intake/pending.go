package intake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/resources"
)

// Bounds of the events of one kind that nobody has processed yet. Each is a resource in memory: 5,000 of 1 MiB would be
// 5 GiB, of the usual 8 KiB they are 40 MiB; so the bytes are bounded too.
const (
	MaxPending      = 5000
	MaxPendingBytes = 256 << 20
)

// Pending counts the message-like events of one kind that somebody has yet to process: those with a finalizer.
type Pending struct {
	state   state.State
	kind    *resources.Kind
	source  string
	metrics *Metrics
	logger  *zap.Logger

	mu    sync.Mutex // guards the following
	sizes map[resource.ID]int64
	bytes int64
}

// NewPending returns a counter; Run keeps it.
func NewPending(st state.State, kind *resources.Kind, source string, metrics *Metrics, logger *zap.Logger) *Pending {
	return &Pending{state: st, kind: kind, source: source, metrics: metrics, logger: logger}
}

// Full reports whether no more may be taken in.
func (p *Pending) Full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return len(p.sizes) >= MaxPending || p.bytes >= MaxPendingBytes
}

// Add counts an event before its creation comes through the watch, so that a burst can't pass the bound. One that is
// never created is forgotten by Remove.
func (p *Pending) Add(id resource.ID, size int64) { p.set(id, size, true) }

// Remove forgets an event.
func (p *Pending) Remove(id resource.ID) { p.set(id, 0, false) }

func (p *Pending) set(id resource.ID, size int64, waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.sizes == nil {
		p.sizes = map[resource.ID]int64{}
	}

	old, known := p.sizes[id]

	switch {
	case waiting && !known:
		p.sizes[id] = size
		p.bytes += size
	case !waiting && known:
		delete(p.sizes, id)
		p.bytes -= old
	}

	p.metrics.Pending(p.source, len(p.sizes))
}

func (p *Pending) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.sizes, p.bytes = nil, 0
}

// relist is the pause before a watch that was overrun is set up again.
const relist = time.Second

// Run counts until ctx ends.
func (p *Pending) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.watch(ctx); err != nil && ctx.Err() == nil {
			p.logger.Warn("pending events are listed again", zap.String("source", p.source), zap.Error(err))
		}

		select {
		case <-ctx.Done():
		case <-time.After(relist):
		}
	}

	return nil
}

func (p *Pending) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	p.reset()

	events := make(chan []state.Event)
	if err := p.state.WatchKindAggregated(ctx, p.kind.List(), events, state.WithBootstrapContents(true)); err != nil {
		return fmt.Errorf("error watching %s: %w", p.kind.Plural, err)
	}

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch := <-events:
			for _, e := range batch {
				if e.Type == state.Errored {
					return fmt.Errorf("the watch failed: %w", e.Error)
				}

				p.note(e)
			}
		}
	}
}

func (p *Pending) note(e state.Event) {
	if e.Type != state.Created && e.Type != state.Updated && e.Type != state.Destroyed {
		return
	}

	a := resources.AttributesOf(e.Resource)
	if a == nil {
		return
	}

	md := e.Resource.Metadata()
	p.set(md.ID(), a.Bytes, e.Type != state.Destroyed && !md.Finalizers().Empty())
}
