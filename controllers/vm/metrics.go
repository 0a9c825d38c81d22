package vm

import (
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"

	"gateway/controllers/chain"
)

// metrics of the controller. None has a label per VM.
type metrics struct {
	latency *prometheus.HistogramVec
	vms     *census
}

func newMetrics(registry prometheus.Registerer) *metrics {
	gauge := chain.Register(registry, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gateway_vms",
		Help: "VMs by host and observed state; host is empty while a VM is not placed.",
	}, []string{"host", "state"}))
	gauge.Reset() // every VM is counted again at its first pass, which every start begins with

	return &metrics{
		latency: chain.Register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gateway_event_to_reconcile_seconds",
			Help:    "Time from taking an event in until the first reconcile of a VM that it led to.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 12),
		}, []string{"source"})),
		vms: &census{gauge: gauge, byVM: map[resource.ID]place{}},
	}
}

// reconciled notes that the events that were seen have led to a reconcile.
func (m *metrics) reconciled(seen []sight, now time.Time) {
	for _, s := range seen {
		m.latency.WithLabelValues(s.source).Observe(now.Sub(s.received).Seconds())
	}
}

// place is where and how a VM is.
type place struct{ host, state string }

// census counts the VMs by place.
type census struct {
	gauge *prometheus.GaugeVec

	mu   sync.Mutex // guards byVM
	byVM map[resource.ID]place
}

func (c *census) set(vm resource.ID, host, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := place{host: host, state: state}

	was, known := c.byVM[vm]
	if known && was == now {
		return
	}

	if known {
		c.gauge.WithLabelValues(was.host, was.state).Dec()
	}

	c.byVM[vm] = now
	c.gauge.WithLabelValues(host, state).Inc()
}

// names calls yield with each VM, under the lock.
func (c *census) names(yield func(vm string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for vm := range c.byVM {
		if !yield(vm) {
			return
		}
	}
}

func (c *census) forget(vm resource.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if was, known := c.byVM[vm]; known {
		delete(c.byVM, vm)
		c.gauge.WithLabelValues(was.host, was.state).Dec()
	}
}

// maxSights is how many events are measured for one reconcile; under a storm the rest are like them.
const maxSights = 8

// sight is an event that was mapped to a VM.
type sight struct {
	id, source string
	received   time.Time
}

// sights remembers, between MapInput and Reconcile, when the events that led to it were taken in.
type sights struct {
	mu   sync.Mutex // guards byVM
	byVM map[resource.ID][]sight
}

func (s *sights) note(vm resource.ID, event sight) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.byVM == nil {
		s.byVM = map[resource.ID][]sight{}
	}

	seen := s.byVM[vm]
	if len(seen) >= maxSights {
		return
	}

	for _, e := range seen {
		if e.id == event.id {
			return
		}
	}

	s.byVM[vm] = append(seen, event)
}

func (s *sights) take(vm resource.ID) []sight {
	s.mu.Lock()
	defer s.mu.Unlock()

	seen := s.byVM[vm]
	delete(s.byVM, vm)

	return seen
}
