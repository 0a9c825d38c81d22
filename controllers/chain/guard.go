package chain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"gateway/store"
)

// Metrics of all guarded controllers.
type Metrics struct {
	duration *prometheus.HistogramVec
	failures *prometheus.CounterVec
	parking  parking
}

// Parked returns how many objects in the queue of a guarded controller are there only to be looked at again at a time to come.
func (m *Metrics) Parked(controller string) int64 { return m.parking.count(controller, time.Now()) }

// NewMetrics registers the metrics of the controllers.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_reconcile_duration_seconds",
			Help:    "Time of one reconcile.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"controller"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_reconcile_errors_total",
			Help: "Reconciles that failed; waiting is not failing.",
		}, []string{"controller"}),
	}
	registry.MustRegister(m.duration, m.failures)

	return m
}

// guarded wraps a controller. Embedding passes on Name, Settings and MapInput.
type guarded struct {
	controller.QController

	timeout time.Duration
	metrics *Metrics
}

// A store that can't be written is waited for: it is not the reconcile that fails, and its log says so once. The pause is short, so that
// all goes on soon after it can, and not the same for all, which would come at once.
const (
	unwritablePause  = 2 * time.Second
	unwritableJitter = 2 * time.Second
)

// Guard gives every reconcile of ctrl a deadline, which COSI does not, and its duration and failures to the metrics. An
// error that wraps context.Canceled counts as success with COSI; unless the runtime itself stops, it is turned into a
// failure, so that the item is tried again.
func Guard(ctrl controller.QController, timeout time.Duration, metrics *Metrics) controller.QController {
	metrics.parking.clear(ctrl.Name())

	return &guarded{QController: ctrl, timeout: timeout, metrics: metrics}
}

// Reconcile implements controller.QController.
func (g *guarded) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	object := parked{ptr.Type(), ptr.ID()}
	g.metrics.parking.leave(g.Name(), object)

	err := g.reconcile(ctx, logger, r, ptr)
	if requeue, ok := errors.AsType[*controller.RequeueError](err); ok {
		g.metrics.parking.park(g.Name(), object, time.Now().Add(requeue.Interval()))
	}

	return err
}

func (g *guarded) reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	limited, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	start := time.Now()
	err := g.QController.Reconcile(limited, logger, r, ptr)

	g.metrics.duration.WithLabelValues(g.Name()).Observe(time.Since(start).Seconds())

	if err == nil || ctx.Err() != nil {
		return err
	}

	if requeue, ok := errors.AsType[*controller.RequeueError](err); ok && requeue.Err() == nil {
		return err
	}

	if errors.Is(err, store.ErrUnwritable) {
		return controller.NewRequeueInterval(unwritablePause + rand.N(unwritableJitter))
	}

	g.metrics.failures.WithLabelValues(g.Name()).Inc()

	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %s", err) // not wrapped on purpose
	}

	return err
}
