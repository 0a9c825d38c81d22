package store

import (
	"context"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
)

// The history of a namespace and type. A watcher that falls behind by more than what is kept stops the whole runtime, so
// the maximum is above every burst that intake lets through (the pacer stops it at 5,000). An event in the history costs
// about 100 bytes beside the object it points to. The gap has to stay below the initial capacity, or no bookmark is valid.
const (
	historyInitial = 1024
	historyMax     = 32768
	historyGap     = historyInitial * 5 / 100
)

// historyOptions size the history of every in-memory state, whatever is behind it.
func historyOptions(more ...inmem.StateOption) []inmem.StateOption {
	return append([]inmem.StateOption{
		inmem.WithHistoryInitialCapacity(historyInitial),
		inmem.WithHistoryMaxCapacity(historyMax),
		inmem.WithHistoryGap(historyGap),
	}, more...)
}

// memoryStore is the engine without a disk.
type memoryStore struct {
	st      state.State
	journal *journal
	id      string
	dir     *dataDir // nil where it has none
}

// NewMemory returns a store that keeps nothing: for tests. Its barrier returns at once.
func NewMemory(id string) Store { return newMemory(id, nil) }

func newMemory(id string, dir *dataDir) *memoryStore {
	build := inmem.NewStateWithOptions(historyOptions()...)

	return &memoryStore{
		st: state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState {
			return build(ns)
		})),
		journal: newJournal(memoryJournalLimits(), nil),
		id:      id,
		dir:     dir,
	}
}

// State implements Store.
func (m *memoryStore) State() state.State { return m.st }

// Barrier implements Store. What is in memory is as durable as it will be.
func (m *memoryStore) Barrier(context.Context) error { return nil }

// Journal implements Store.
func (m *memoryStore) Journal() Journal { return m.journal }

// Healthy implements Store.
func (m *memoryStore) Healthy() error { return nil }

// GatewayID implements Store.
func (m *memoryStore) GatewayID() string { return m.id }

// Close implements Store.
func (m *memoryStore) Close() error { return m.dir.close() }
