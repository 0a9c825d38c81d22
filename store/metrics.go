package store

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// storeMetrics are what Prometheus sees of a store with a disk.
type storeMetrics struct {
	registry prometheus.Registerer
	// seconds are those of a record of the log, checkpoints those of a transaction of the store file.
	seconds, checkpoints prometheus.Histogram
	logBytes             prometheus.Gauge
	registered           []prometheus.Collector
}

// newStoreMetrics registers the metrics of a queue; a nil registry leaves them unregistered.
func newStoreMetrics(registry prometheus.Registerer, q *queue) (*storeMetrics, error) {
	m := &storeMetrics{
		registry: registry,
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gateway_store_commit_seconds",
			Help: "Time until one batch of changes is durable, fsync included.",
			// 0.25 ms is a fast NVMe drive, 4 s a disk that is dying.
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
		}),
		checkpoints: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_store_checkpoint_seconds",
			Help:    "Time of bringing the log of the store into its file.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
	}

	m.logBytes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gateway_store_log_bytes",
		Help: "Bytes in the log that are not on their way into the store file; at 67108864 writers wait.",
	})

	if registry == nil {
		return m, nil
	}

	for _, c := range []prometheus.Collector{
		m.seconds,
		m.checkpoints,
		m.logBytes,
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
