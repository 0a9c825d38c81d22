package chain

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the collector and returns it, or the one that is there already: controllers are built again whenever
// the runtime is, and keep counting where they were.
func Register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
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
