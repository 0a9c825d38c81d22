package hypervisor

import "github.com/prometheus/client_golang/prometheus"

// metrics of a pool.
type metrics struct {
	calls     *prometheus.HistogramVec
	connected *prometheus.GaugeVec
	abandoned *prometheus.GaugeVec
	sentAway  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_hypervisor_call_seconds",
			Help:    "Time of one call to a hypervisor, those that were abandoned included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // 0.5 ms to 33 s, which is past the longest deadline
		}, []string{"call"}),
		connected: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_host_connected",
			Help: "Whether the host is connected.",
		}, []string{"host"}),
		abandoned: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_hypervisor_abandoned_calls",
			Help: "Calls to the host that were given up after their deadline and have not ended.",
		}, []string{"host"}),
		sentAway: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_hypervisor_sent_away_total",
			Help: "Looks at VMs that were put off since the host works on as many calls as it is given, and takes long for them.",
		}, []string{"host"}),
	}

	if registry != nil {
		registry.MustRegister(m.calls, m.connected, m.abandoned, m.sentAway)
	}

	return m
}

// forget removes the series of a host.
func (m *metrics) forget(host string) {
	m.connected.DeleteLabelValues(host)
	m.abandoned.DeleteLabelValues(host)
	m.sentAway.DeleteLabelValues(host)
}
