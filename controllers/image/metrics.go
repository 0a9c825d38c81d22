package image

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"gateway/controllers/chain"
)

// metrics of the controller. None has a label per image.
type metrics struct {
	fetches *prometheus.CounterVec
	bytes   prometheus.Counter
	running prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		fetches: chain.Register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_image_fetches_total",
			Help: "Images that were fetched to a host, by result: done, invalid, missing, failed.",
		}, []string{"result"})),
		bytes: chain.Register(registry, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_image_bytes_total",
			Help: "Bytes of images that were streamed to hosts.",
		})),
		running: chain.Register(registry, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_image_transfers",
			Help: "Images that are being streamed to hosts.",
		})),
	}
	m.running.Set(0)

	return m
}

// result is the label of a fetch that ended with err.
func result(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, errInvalid):
		return "invalid"
	case errors.Is(err, errSource):
		return "missing"
	default:
		return "failed"
	}
}
