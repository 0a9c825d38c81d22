package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/store"
)

// ends is a controller whose reconcile ends with an error.
type ends struct {
	controller.QController

	with error
}

func (ends) Name() string { return "ends" }

func (e ends) Reconcile(context.Context, *zap.Logger, controller.QRuntime, resource.Pointer) error {
	return e.with
}

func TestAGuardTellsWaitingFromFailing(t *testing.T) {
	for name, test := range map[string]struct {
		err error
		// requeued is whether the item looks again without an error; failed, whether the metric counts it.
		requeued, failed bool
	}{
		"success":                       {},
		"a failure":                     {err: errors.New("no"), failed: true},
		"waiting":                       {err: controller.NewRequeueInterval(time.Second), requeued: true},
		"a store that can't be written": {err: fmt.Errorf("error adding a finalizer: %w", store.ErrUnwritable), requeued: true},
		"a context that somebody ended": {err: fmt.Errorf("error calling: %w", context.Canceled), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			metrics := chain.NewMetrics(registry)
			guarded := chain.Guard(ends{with: test.err}, time.Second, metrics)

			err := guarded.Reconcile(t.Context(), zap.NewNop(), nil, chain.VM("web"))

			requeue, ok := errors.AsType[*controller.RequeueError](err)
			require.Equal(t, test.requeued, ok && requeue.Err() == nil)
			require.Equal(t, test.requeued, metrics.Parked("ends") == 1, "what is to be looked at later is parked")
			require.NotErrorIs(t, err, context.Canceled, "COSI would take it for success")

			families, err := registry.Gather()
			require.NoError(t, err)

			var names []string
			for _, f := range families {
				names = append(names, f.GetName())
			}

			require.Equal(t, test.failed, slices.Contains(names, "gateway_reconcile_errors_total"))
		})
	}
}

func TestAnObjectIsParkedUntilItsTimeComesOrItIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := chain.NewMetrics(prometheus.NewRegistry())
		waits := chain.Guard(ends{with: controller.NewRequeueInterval(time.Minute)}, time.Second, metrics)
		look := func(ctrl controller.QController, vm string) {
			_ = ctrl.Reconcile(t.Context(), zap.NewNop(), nil, chain.VM(vm))
		}

		look(waits, "a")
		look(waits, "b")
		look(waits, "b")
		require.Equal(t, int64(2), metrics.Parked("ends"))
		require.Zero(t, metrics.Parked("another"))

		time.Sleep(30 * time.Second)
		look(waits, "b")
		time.Sleep(30 * time.Second)
		require.Equal(t, int64(1), metrics.Parked("ends"), "a waits for a worker now")

		// A controller that is built anew has an empty queue.
		done := chain.Guard(ends{}, time.Second, metrics)
		require.Zero(t, metrics.Parked("ends"))
		look(done, "b")
		require.Zero(t, metrics.Parked("ends"))
	})
}
