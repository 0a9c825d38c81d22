package intake

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what sources take in. One value is shared by all sources, because a registry takes each metric once. All
// methods are safe for concurrent use and do nothing on nil. Sources are the resources.SourceX constants.
type Metrics struct {
	received *prometheus.CounterVec
	refused  *prometheus.CounterVec
	pending  *prometheus.GaugeVec
	overrun  *prometheus.CounterVec
}

// NewMetrics registers the metrics of all sources. With a registry that has them already it returns the same counters: sources
// are built again whenever the runtime is, and keep counting where they were.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{
		received: register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_events_received_total",
			Help: "Events taken in.",
		}, []string{"source"})),
		refused: register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_events_refused_total",
			Help: "Events that were not taken in, by reason.",
		}, []string{"source", "reason"})),
		pending: register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_events_pending",
			Help: "Events that were taken in or seen, and have yet to be handled.",
		}, []string{"source"})),
		overrun: register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_events_overrun_total",
			Help: "How often more happened than a source remembers, so that it looked at everything.",
		}, []string{"source"})),
	}
}

func register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
	err := registry.Register(collector)
	if err == nil {
		return collector
	}

	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := known.ExistingCollector.(C); ok {
			return existing
		}
	}

	panic(err) // two metrics of one name are a fault of the program
}

// Received counts an event that was taken in.
func (m *Metrics) Received(source string) {
	if m != nil {
		m.received.WithLabelValues(source).Inc()
	}
}

// Refused counts an event that was not taken in. Reasons are few constant words, never text of a sender.
func (m *Metrics) Refused(source, reason string) {
	if m != nil {
		m.refused.WithLabelValues(source, reason).Inc()
	}
}

// AddRefused counts n events that were not taken in.
func (m *Metrics) AddRefused(source, reason string, n int) {
	if m != nil {
		m.refused.WithLabelValues(source, reason).Add(float64(n))
	}
}

// Pending sets how many events of a source have yet to be handled.
func (m *Metrics) Pending(source string, n int) {
	if m != nil {
		m.pending.WithLabelValues(source).Set(float64(n))
	}
}

// AddPending changes how many events of a source have yet to be handled.
func (m *Metrics) AddPending(source string, delta int) {
	if m != nil {
		m.pending.WithLabelValues(source).Add(float64(delta))
	}
}

// Overrun counts that a source could not remember all that happened, and looks at everything.
func (m *Metrics) Overrun(source string) {
	if m != nil {
		m.overrun.WithLabelValues(source).Inc()
	}
}
