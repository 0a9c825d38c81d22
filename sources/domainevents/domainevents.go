package domainevents

import (
	"context"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

const (
	// sweepInterval is how often the events of domains that are no more are looked for.
	sweepInterval = time.Minute
	// notesWaiting decouples the hosts' goroutines from the writing; what does not fit waits, coalesced, with its host.
	notesWaiting = 64
	// journalRate and journalBurst bound what a storm of events can push out of the journal: 100,000 entries last half an
	// hour at least.
	journalRate  = 50
	journalBurst = 500
)

// Pool is the part of hypervisor.Pool that the source uses.
type Pool interface {
	Driver(host string) (hypervisor.Driver, error)
	Watch(fn func(host string)) (unregister func())
}

// Options of the source. Pool and GatewayID are required.
type Options struct {
	Pool Pool
	// GatewayID marks the domains that are ours.
	GatewayID string
	Metrics   *intake.Metrics
	Journal   store.Journal
	Pacer     intake.Pacer
}

// Source is the controller that turns hypervisor events into DomainEvents.
type Source struct {
	options Options
	// epoch is the start of the process as far as sequences are concerned.
	epoch string
}

// New returns the source of domain events.
func New(options Options) *Source {
	return &Source{options: options, epoch: time.Now().UTC().Format(time.RFC3339Nano)}
}

// Name implements controller.Controller.
func (s *Source) Name() string { return resources.SourceDomainEvents }

// Inputs implements controller.Controller. VMConfigs are only looked up, to drop the events of those that are no more: as a
// DestroyReady input their changes do not wake the source.
func (s *Source) Inputs() []controller.Input {
	return []controller.Input{
		{Namespace: resources.NamespaceHosts, Type: resources.HostType, Kind: controller.InputWeak},
		{Namespace: resources.NamespaceHosts, Type: resources.HostStatusType, Kind: controller.InputWeak},
		{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputDestroyReady},
		{Namespace: resources.NamespaceEvents, Type: resources.DomainEventType, Kind: controller.InputDestroyReady},
	}
}

// Outputs implements controller.Controller.
func (s *Source) Outputs() []controller.Output {
	return []controller.Output{{Type: resources.DomainEventType, Kind: controller.OutputExclusive}}
}

// Run implements controller.Controller. One goroutine per host listens; only this one writes.
func (s *Source) Run(ctx context.Context, r controller.Runtime, logger *zap.Logger) error {
	ctx, cancel := context.WithCancel(ctx)

	x := &run{
		Options: s.options, epoch: s.epoch, r: r, logger: logger, pace: intake.Pace{Pacer: s.options.Pacer},
		hosts: map[string]*listener{}, notes: make(chan note, notesWaiting), expiring: map[string]bool{},
		journaling: rate.NewLimiter(journalRate, journalBurst),
	}

	unregister := s.options.Pool.Watch(x.poke)

	defer func() {
		unregister()
		cancel()
		x.running.Wait()
	}()

	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()

	for {
		var err error

		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			err = x.reconcile(ctx)
		case n := <-x.notes:
			err = x.take(ctx, n)
		case <-sweep.C:
			err = x.sweep(ctx)
		}

		if err != nil {
			return err
		}

		r.ResetRestartBackoff()
	}
}

// run is one life of the source. Only Run's goroutine uses it, but for hosts.
type run struct {
	Options

	epoch   string
	r       controller.Runtime
	logger  *zap.Logger
	pace    intake.Pace
	notes   chan note
	running sync.WaitGroup

	mu    sync.Mutex // guards hosts, which the pool's goroutines read
	hosts map[string]*listener

	// expiring are the events of foreign domains that are gone, which the sweep after the next drops.
	expiring map[string]bool
	// journaling bounds the journal; suppressed counts what it left out since the last sweep.
	journaling *rate.Limiter
	suppressed int
}

// poke makes a host's listener look at its connection. It is called by the pool and does not block.
func (x *run) poke(host string) {
	x.mu.Lock()
	defer x.mu.Unlock()

	if l := x.hosts[host]; l != nil {
		l.poke()
	}
}
