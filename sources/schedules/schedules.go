package schedules

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

const (
	// maxSleep bounds the sleep between two looks at the clock: timers follow the monotonic clock and do not see that the
	// wall clock was set.
	maxSleep = 5 * time.Second
	// spacing is the time between two ticks of one schedule that are due at once: a tick is state-like, and its readers
	// shall see each.
	spacing = 50 * time.Millisecond
	// recheck is how often a queued tick looks whether the run before it is over.
	recheck = time.Second
)

// Options of the source. All may be left out.
type Options struct {
	Metrics *intake.Metrics
	Journal store.Journal
	// now is the wall clock; tests set it.
	now func() time.Time
}

// Source is the controller that turns time into CronTicks.
type Source struct{ options Options }

// New returns the source of clock ticks.
func New(options Options) *Source {
	if options.now == nil {
		// Without the monotonic reading: schedules follow the clock on the wall.
		options.now = func() time.Time { return time.Now().Round(0) }
	}

	return &Source{options: options}
}

// Name implements controller.Controller.
func (s *Source) Name() string { return resources.SourceSchedules }

// Inputs implements controller.Controller. VMs are only read, when a tick has to know whether the run before it is over: as
// DestroyReady inputs their changes do not wake the source. CronTicks that somebody's finalizer held do, once it is gone.
func (s *Source) Inputs() []controller.Input {
	return []controller.Input{
		{Namespace: resources.NamespaceBridge, Type: resources.ScheduleType, Kind: controller.InputWeak},
		{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputDestroyReady},
		{Namespace: resources.NamespaceVMs, Type: resources.VMStatusType, Kind: controller.InputDestroyReady},
		{Namespace: resources.NamespaceVMs, Type: resources.OverrideType, Kind: controller.InputDestroyReady},
		{Namespace: resources.NamespaceEvents, Type: resources.CronTickType, Kind: controller.InputDestroyReady},
	}
}

// Outputs implements controller.Controller.
func (s *Source) Outputs() []controller.Output {
	return []controller.Output{
		{Type: resources.CronTickType, Kind: controller.OutputExclusive},
		{Type: resources.ScheduleStatusType, Kind: controller.OutputExclusive},
	}
}

// Run implements controller.Controller. Everything it knows is rebuilt from the state, so that a restart after an error is a
// restart like any other.
func (s *Source) Run(ctx context.Context, r controller.Runtime, logger *zap.Logger) error {
	run := &run{Options: s.options, r: r, logger: logger, entries: map[string]*entry{}}

	timer := time.NewTimer(maxSleep)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			if err := run.load(ctx); err != nil {
				return err
			}
		case <-timer.C:
		}

		sleep, err := run.step(ctx)
		if err != nil {
			return err
		}

		timer.Reset(sleep)
		r.ResetRestartBackoff()
	}
}
