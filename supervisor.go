package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Pauses before a runtime that ended is rebuilt.
const (
	minRebuild = 100 * time.Millisecond
	maxRebuild = 10 * time.Second
	// settled is how long a runtime runs before its next end counts as the first.
	settled = time.Minute
)

// supervisor keeps a COSI runtime running. A runtime ends when a watch is overrun, and can't be run again: it is built
// anew, with new controllers, on the same state. What sits on the state (HTTP, sinks, client watches) lives on.
type supervisor struct {
	state    state.State
	build    func() ([]controller.Controller, []controller.QController, error)
	logger   *zap.Logger
	rebuilds prometheus.Counter
	// started is called each time a runtime is about to run, and stopped when it ended.
	started, stopped func()
}

// run returns when ctx ends, or when the runtime can't be built, which is a fault of the program.
func (s *supervisor) run(ctx context.Context) error {
	for failures := 0; ; failures++ {
		rt, err := s.runtime()
		if err != nil {
			return err
		}

		start := time.Now()

		s.started()
		err = rt.Run(ctx)
		s.stopped()

		if ctx.Err() != nil {
			return nil
		}

		s.rebuilds.Inc()

		if time.Since(start) > settled {
			failures = 0
		}

		pause := min(minRebuild<<min(failures, 10), maxRebuild)
		pause += rand.N(pause / 2)
		s.logger.Error("the controller runtime ended and is rebuilt", zap.Error(err), zap.Duration("after", pause))

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// runtime builds a runtime with new controllers.
func (s *supervisor) runtime() (*runtime.Runtime, error) {
	rt, err := runtime.NewRuntime(s.state, withoutRoutine(s.logger))
	if err != nil {
		return nil, fmt.Errorf("error building the controller runtime: %w", err)
	}

	controllers, queued, err := s.build()
	if err != nil {
		return nil, err
	}

	for _, c := range controllers {
		if err := rt.RegisterController(c); err != nil {
			return nil, fmt.Errorf("error registering %s: %w", c.Name(), err)
		}
	}

	for _, c := range queued {
		if err := rt.RegisterQController(c); err != nil {
			return nil, fmt.Errorf("error registering %s: %w", c.Name(), err)
		}
	}

	return rt, nil
}
