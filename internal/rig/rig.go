// Package rig runs controllers on a COSI runtime over a state in memory, for the tests of controllers. It is called inside a
// testing/synctest bubble; only tests import it.
package rig

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/resources"
)

// Run runs the controllers, and COSI's destroy controller for every declared kind, until the returned stop is called or the
// test ends.
func Run(t *testing.T, st state.State, controllers ...controller.QController) (stop func()) {
	t.Helper()

	rt, err := runtime.NewRuntime(st, zap.NewNop())
	require.NoError(t, err)

	for _, kind := range resources.DeclaredKinds() {
		controllers = append(controllers, destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](2)))
	}

	for _, c := range controllers {
		require.NoError(t, rt.RegisterQController(c))
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	stopped := false
	stop = func() {
		if stopped {
			return
		}

		stopped = true

		cancel()
		require.NoError(t, <-done)
	}

	t.Cleanup(stop)

	return stop
}

// Settle lets d of the bubble's time pass, and everything that is due come to rest.
func Settle(t *testing.T, d time.Duration) {
	t.Helper()

	time.Sleep(d) // virtual
	synctest.Wait()
}

// Get reads a resource; nil where there is none.
func Get[R resource.Resource](t *testing.T, st state.State, ptr resource.Pointer) R {
	t.Helper()

	var none R

	got, err := st.Get(t.Context(), ptr)
	if state.IsNotFoundError(err) {
		return none
	}

	require.NoError(t, err)

	typed, ok := got.(R)
	require.True(t, ok, "%T", got)

	return typed
}

// List returns the resources of a kind.
func List(t *testing.T, st state.State, kind resource.Kind) []resource.Resource {
	t.Helper()

	list, err := st.List(t.Context(), kind)
	require.NoError(t, err)

	return list.Items
}
