package webhooks

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/resources"
)

// pending counts the events that somebody has yet to process.
type pending struct {
	mu    sync.Mutex // guards the following
	sizes map[resource.ID]int
	bytes int
}

func (p *pending) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return len(p.sizes) >= maxPending || p.bytes >= maxPendingBytes
}

// set notes whether an event is pending, and returns how many are.
func (p *pending) set(id resource.ID, size int, waiting bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()

	old, known := p.sizes[id]

	switch {
	case waiting && !known:
		p.sizes[id] = size
		p.bytes += size
	case !waiting && known:
		delete(p.sizes, id)
		p.bytes -= old
	}

	return len(p.sizes)
}

func (p *pending) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.sizes, p.bytes = map[resource.ID]int{}, 0
}

// relist is the pause before a watch that was overrun is set up again.
const relist = time.Second

// Run counts pending events until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.countPending(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("the webhooks source lists its events again", zap.Error(err))
		}

		select {
		case <-ctx.Done():
		case <-time.After(relist):
		}
	}

	return nil
}

func (s *Server) countPending(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	s.pending.reset()

	events := make(chan []state.Event)
	kind := resources.KindOf(resources.NewWebhookEvent("").Metadata())

	if err := s.State.WatchKindAggregated(ctx, kind.List(), events, state.WithBootstrapContents(true)); err != nil {
		return fmt.Errorf("error watching webhook events: %w", err)
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

				event, ok := e.Resource.(*resources.WebhookEvent)
				if !ok {
					continue
				}

				waiting := e.Type != state.Destroyed && !event.Metadata().Finalizers().Empty()
				s.Metrics.Pending(resources.SourceWebhook, s.pending.set(event.Metadata().ID(), len(event.TypedSpec().Data), waiting))
			}
		}
	}
}

// stripes is the number of locks that all delivery ids share.
const stripes = 256

// keyLocks serialises what is done for one delivery id.
type keyLocks struct {
	once  sync.Once
	seed  maphash.Seed
	locks [stripes]sync.Mutex
}

// lock returns the function that unlocks.
func (k *keyLocks) lock(id string) func() {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	l := &k.locks[maphash.String(k.seed, id)%stripes]
	l.Lock()

	return l.Unlock
}
