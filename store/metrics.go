package store

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// storeMetrics are what Prometheus sees of a store with a disk.
type storeMetrics struct {
	registry   prometheus.Registerer
	seconds    prometheus.Histogram
	registered []prometheus.Collector
}

// newStoreMetrics registers the metrics of a queue; a nil registry leaves them unregistered.
func newStoreMetrics(registry prometheus.Registerer, q *queue) (*storeMetrics, error) {
	m := &storeMetrics{
		registry: registry,
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gateway_store_commit_seconds",
			Help: "Time of one transaction of the store, fsync included.",
			// 0.5 ms is a fast NVMe drive, 8 s a disk that is dying.
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}

	if registry == nil {
		return m, nil
	}

	for _, c := range []prometheus.Collector{
		m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_store_queue_length",
			Help: "Writes that are not yet durable.",
		}, func() float64 {
			ops, _ := q.length()

			return float64(ops)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_store_queue_bytes",
			Help: "Bytes of the writes that are not yet durable; above 67108864 writers wait.",
		}, func() float64 {
			_, bytes := q.length()

			return float64(bytes)
		}),
	} {
		if err := registry.Register(c); err != nil {
			m.unregister()

			return nil, fmt.Errorf("error registering the store's metrics: %w", err)
		}

		m.registered = append(m.registered, c)
	}

	return m, nil
}

func (m *storeMetrics) unregister() {
	for _, c := range m.registered {
		m.registry.Unregister(c)
	}
}
