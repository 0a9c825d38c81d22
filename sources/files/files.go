package files

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// Defaults of Options.
const (
	DefaultSettle = 250 * time.Millisecond
	DefaultRescan = 30 * time.Second
	DefaultPoll   = 2 * time.Second
)

// retry is how often a root that is not there is looked for.
const retry = time.Second

// Options of the source. Only Roots is required.
type Options struct {
	// Roots are the directories with documents; relative ones are below the working directory.
	Roots []string
	// Settle is how long a file must not change before it counts as written, DefaultSettle if zero.
	Settle time.Duration
	// Rescan is the interval of the scans that compare by content, DefaultRescan if zero.
	Rescan time.Duration
	// Poll is the interval of scans where inotify is not available, or NoWatch is set, DefaultPoll if zero.
	Poll time.Duration
	// NoWatch makes the source poll.
	NoWatch bool
	Metrics *intake.Metrics
	Journal store.Journal
	// Pacer holds back the writing of events while controllers have too much to do.
	Pacer intake.Pacer
}

// Source is the controller that turns files into FileEvents.
type Source struct {
	options Options
	roots   []string
}

// New returns the source of documents in directories. It does not touch them yet.
func New(options Options) (*Source, error) {
	if options.Settle == 0 {
		options.Settle = DefaultSettle
	}

	if options.Rescan == 0 {
		options.Rescan = DefaultRescan
	}

	if options.Poll == 0 {
		options.Poll = DefaultPoll
	}

	s := &Source{options: options}

	for _, root := range options.Roots {
		if root == "" {
			return nil, errors.New("error reading the document directories: one is empty")
		}

		absolute, err := filepath.Abs(root)
		if err != nil {
			return nil, fmt.Errorf("error finding the document directory %q: %w", root, err)
		}

		if !slices.Contains(s.roots, absolute) {
			s.roots = append(s.roots, absolute)
		}
	}

	return s, nil
}

// Roots returns the absolute paths of the directories.
func (s *Source) Roots() []string { return slices.Clone(s.roots) }

// Name implements controller.Controller.
func (s *Source) Name() string { return resources.SourceFiles }

// Inputs implements controller.Controller: its own events, once nobody needs those that are torn down any more.
func (s *Source) Inputs() []controller.Input {
	return []controller.Input{
		{Namespace: resources.NamespaceEvents, Type: resources.FileEventType, Kind: controller.InputDestroyReady},
	}
}

// Outputs implements controller.Controller.
func (s *Source) Outputs() []controller.Output {
	return []controller.Output{
		{Type: resources.FileEventType, Kind: controller.OutputExclusive},
		{Type: resources.FileStatusType, Kind: controller.OutputExclusive},
		{Type: resources.FileRootType, Kind: controller.OutputExclusive},
	}
}

// Run implements controller.Controller. What was reported before is read from the state, so that a restart reports only what
// changed meanwhile.
func (s *Source) Run(ctx context.Context, r controller.Runtime, logger *zap.Logger) error {
	x := &run{Options: s.options, r: r, logger: logger, pace: intake.Pace{Pacer: s.options.Pacer}}

	var wake <-chan struct{}

	if !s.options.NoWatch {
		h, err := newHints(logger)
		if err != nil {
			logger.Warn("file changes can't be watched: polling", zap.Error(err), zap.Duration("interval", s.options.Poll))
		} else {
			defer h.close()

			x.hints, wake = h, h.wake
		}
	}

	if err := x.load(ctx, s.roots); err != nil {
		return err
	}

	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			if err := x.destroyReleased(ctx); err != nil {
				return err
			}
		case <-wake:
			x.takeHints()
		case <-timer.C:
		}

		sleep, err := x.step(ctx)
		if err != nil {
			return err
		}

		timer.Reset(sleep)
		r.ResetRestartBackoff()
	}
}
