// Package intaketest is what the tests of sources share: a runtime on an in-memory state, and a journal that remembers.
// Only tests import it.
package intaketest

import (
	"context"
	"sync"
	"testing"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/controller/runtime/options"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"golang.org/x/time/rate"

	"gateway/store"
)

// history is what the gateway's own store keeps for watchers.
const history = 16_384

// NewState returns an empty in-memory state.
func NewState() state.State {
	return state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState {
		return inmem.NewStateWithOptions(inmem.WithHistoryInitialCapacity(1024), inmem.WithHistoryMaxCapacity(history), inmem.WithHistoryGap(50))(ns)
	}))
}

// Run runs the controllers on the state until stop is called, or the test ends; stop waits for them.
func Run(t testing.TB, st state.State, controllers ...controller.Controller) (stop func()) {
	t.Helper()

	rt, err := runtime.NewRuntime(st, zaptest.NewLogger(t), options.WithChangeRateLimit(rate.Inf, 1))
	require.NoError(t, err)

	for _, c := range controllers {
		require.NoError(t, rt.RegisterController(c))
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)

	return stop
}

// Journal remembers its entries.
type Journal struct {
	mu      sync.Mutex // guards entries
	entries []store.Entry
}

// Append implements store.Journal.
func (j *Journal) Append(e store.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	e.Number = uint64(len(j.entries) + 1)
	j.entries = append(j.entries, e)

	return nil
}

// Join implements store.Journal as one without a disk does.
func (j *Journal) Join(ctx context.Context, e store.Entry) (joined context.Context, finish func() error) {
	return ctx, func() error { return j.Append(e) }
}

// Entries returns what was appended, oldest first.
func (j *Journal) Entries() []store.Entry {
	j.mu.Lock()
	defer j.mu.Unlock()

	return append([]store.Entry(nil), j.entries...)
}

// Query implements store.Journal: it returns everything.
func (j *Journal) Query(context.Context, store.Query) ([]store.Entry, error) { return j.Entries(), nil }

// Seen implements store.Journal: nothing was.
func (j *Journal) Seen(string, string, string) (string, bool) { return "", false }

// Forget implements store.Journal.
func (j *Journal) Forget(string, string, string) {}

// Wait implements store.Journal: it waits for ctx.
func (j *Journal) Wait(ctx context.Context, _ uint64) error {
	<-ctx.Done()

	return ctx.Err()
}
