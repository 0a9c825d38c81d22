package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
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
			guarded := chain.Guard(ends{with: test.err}, time.Second, chain.NewMetrics(registry))

			err := guarded.Reconcile(t.Context(), zap.NewNop(), nil, nil)

			requeue, ok := errors.AsType[*controller.RequeueError](err)
			require.Equal(t, test.requeued, ok && requeue.Err() == nil)
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
