package sinks

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of all sinks: one label, the sink.
type Metrics struct {
	published, failed *prometheus.CounterVec
	lag               *prometheus.GaugeVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_published_total", Help: "Messages that were acknowledged.",
		}, []string{"sink"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_publish_failures_total", Help: "Attempts to publish that failed and are tried again.",
		}, []string{"sink"}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_publish_lag", Help: "Objects or events whose newest message is not acknowledged.",
		}, []string{"sink"}),
	}
	registry.MustRegister(m.published, m.failed, m.lag)

	return m
}

// For returns the metrics of one sink.
func (m *Metrics) For(sink string) *SinkMetrics {
	return &SinkMetrics{
		Published: m.published.WithLabelValues(sink),
		Failed:    m.failed.WithLabelValues(sink),
		Lag:       m.lag.WithLabelValues(sink),
	}
}

// SinkMetrics are those of one sink.
type SinkMetrics struct {
	Published, Failed prometheus.Counter
	Lag               prometheus.Gauge

	nextLog atomic.Int64
}

// logEvery bounds the lines about a broker that is away: one in ten seconds, whatever the number of messages.
const logEvery = 10 * time.Second

// MayLog reports whether a failure is to be logged now.
func (m *SinkMetrics) MayLog() bool {
	now := time.Now().UnixNano()
	next := m.nextLog.Load()

	return now >= next && m.nextLog.CompareAndSwap(next, now+int64(logEvery))
}
