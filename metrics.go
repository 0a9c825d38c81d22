package gateway

import (
	"expvar"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller/runtime/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// queueLength exports the lengths of the controllers' queues, which COSI keeps as expvar.
type queueLength struct{ desc *prometheus.Desc }

// Describe implements prometheus.Collector.
func (q queueLength) Describe(ch chan<- *prometheus.Desc) { ch <- q.desc }

// Collect implements prometheus.Collector.
func (q queueLength) Collect(ch chan<- prometheus.Metric) {
	metrics.QControllerQueueLength.Do(func(kv expvar.KeyValue) {
		if n, ok := kv.Value.(*expvar.Int); ok {
			ch <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, float64(n.Value()), kv.Key)
		}
	})
}

// registerProcess registers what is measured of the process itself, and returns the counter of runtime rebuilds.
func registerProcess(registry prometheus.Registerer) prometheus.Counter {
	rebuilds := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_runtime_rebuilds_total", Help: "How often the controller runtime ended and was rebuilt.",
	})

	registry.MustRegister(rebuilds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		queueLength{prometheus.NewDesc("gateway_queue_length", "Items that wait in a controller's queue.", []string{"controller"}, nil)})

	return rebuilds
}

// registerConnections registers how many HTTP connections are open.
func registerConnections(registry prometheus.Registerer, open func() int) error {
	err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gateway_http_connections", Help: "HTTP connections that are open; above 1000 further ones wait.",
	}, func() float64 { return float64(open()) }))
	if err != nil {
		return fmt.Errorf("error registering the number of connections: %w", err)
	}

	return nil
}
