package resync_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/resync"
	"gateway/resources"
	"gateway/store"
)

// start runs the controller on a state with so many VMs, until the test ends.
func start(t *testing.T, vms int, o resync.Options) state.State {
	t.Helper()

	st := store.NewMemory("test").State()
	for i := range vms {
		require.NoError(t, st.Create(t.Context(), resources.NewVMConfig(fmt.Sprintf("vm-%d", i))))
	}

	rt, err := runtime.NewRuntime(st, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, rt.RegisterController(resync.New(o)))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	return st
}

// slices returns the slices that were asked for, by their number.
func slices(t *testing.T, st state.State) map[uint32]resources.ResyncSpec {
	t.Helper()

	list, err := safe.StateListAll[*resources.Resync](t.Context(), st)
	require.NoError(t, err)

	found := map[uint32]resources.ResyncSpec{}
	for r := range list.All() {
		found[r.TypedSpec().Slice] = *r.TypedSpec()
	}

	return found
}

func TestRounds(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		vms    int
		after  time.Duration
		slices int
		// sequence is that of the first slice.
		sequence uint64
	}{
		"nothing is asked for at the start, which looks at everything itself": {vms: 10, after: 4 * time.Minute, slices: 0},
		"few VMs are one slice an interval":                                   {vms: 10, after: 21 * time.Minute, slices: 1, sequence: 4},
		"many VMs are spread over the interval":                               {vms: 45, after: 5*time.Minute + 61*time.Second, slices: 2, sequence: 1},
		"each round asks for every slice again":                               {vms: 45, after: 20*time.Minute - time.Second, slices: 5, sequence: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				st := start(t, test.vms, resync.Options{SliceSize: 10})

				time.Sleep(test.after)
				synctest.Wait()

				found := slices(t, st)
				require.Len(t, found, test.slices)
				require.Equal(t, test.sequence, found[0].Sequence)

				for _, s := range found {
					require.Equal(t, resync.Cause, s.Cause)
				}
			})
		})
	}
}

func TestEveryVMIsInOneSliceOfARound(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		st := start(t, 100, resync.Options{SliceSize: 10, Interval: time.Minute})

		time.Sleep(2 * time.Minute)
		synctest.Wait()

		found := slices(t, st)
		require.Len(t, found, 10)

		for i := range 100 {
			in := 0

			for _, s := range found {
				if s.Contains(fmt.Sprintf("vm-%d", i), nil) {
					in++
				}
			}

			require.Equal(t, 1, in)
		}
	})
}
