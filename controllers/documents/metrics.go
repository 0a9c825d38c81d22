package documents

import (
	"github.com/prometheus/client_golang/prometheus"

	"gateway/controllers/chain"
)

// metrics count what became of documents.
type metrics struct {
	objects *prometheus.CounterVec
	dead    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	return &metrics{
		objects: chain.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_documents_total",
			Help: "Documents that were applied, by outcome.",
		}, []string{"outcome"})),
		dead: chain.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_dead_letters_total",
			Help: "Events and actions that could not be processed.",
		}, []string{"source"})),
	}
}
