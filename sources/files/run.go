package files

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/sources/intake"
)

// run is one life of the source. Only Run's goroutine uses it.
type run struct {
	Options

	r      controller.Runtime
	logger *zap.Logger
	pace   intake.Pace
	// hints is nil where the source polls.
	hints *hints
	roots []*root
	// polling says that some directories can't be watched.
	polling bool
}

// load makes the roots and what is known of them.
func (x *run) load(ctx context.Context, paths []string) error {
	byPath := map[string]*root{}

	for _, path := range paths {
		root := &root{
			path: path, scanner: NewScanner(path, paths...), tracker: NewTracker(x.Settle, x.hints != nil),
			spec: resources.FileRootSpec{Path: path}, statuses: map[string]resources.FileStatusSpec{}, dirty: map[string]bool{},
		}

		if x.hints != nil {
			root.scanner.watch = x.hints.watch
		}

		x.roots = append(x.roots, root)
		byPath[path] = root
	}

	if err := x.loadRoots(ctx, byPath); err != nil {
		return err
	}

	events, err := safe.ReaderListAll[*resources.FileEvent](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing file events: %w", err)
	}

	for event := range events.All() {
		spec := event.TypedSpec()

		root := byPath[spec.Root]

		switch {
		case root == nil: // no longer configured: nothing is removed
		case event.Metadata().Phase() == resource.PhaseRunning:
			root.tracker.known[spec.Path] = spec.Digest
		default:
			root.tracker.leaving[spec.Path] = true
		}
	}

	statuses, err := safe.ReaderListAll[*resources.FileStatus](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing file statuses: %w", err)
	}

	for status := range statuses.All() {
		if root := byPath[status.TypedSpec().Root]; root != nil {
			root.statuses[status.TypedSpec().Path] = *status.TypedSpec()
		}
	}

	return x.destroyReleased(ctx)
}

// loadRoots reads the FileRoots. One that is no longer configured is not available any more; its objects stay.
func (x *run) loadRoots(ctx context.Context, byPath map[string]*root) error {
	list, err := safe.ReaderListAll[*resources.FileRoot](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing file roots: %w", err)
	}

	for known := range list.All() {
		spec := *known.TypedSpec()

		if root := byPath[spec.Path]; root != nil {
			root.spec = spec

			continue
		}

		spec.Available, spec.Reason, spec.Message = false, resources.ReasonWaiting, "no longer configured: what it declared stays"
		if err := x.writeRoot(ctx, spec); err != nil {
			return err
		}
	}

	return nil
}

// takeHints passes on what inotify said to the roots it is about.
func (x *run) takeHints() {
	hint := x.hints.take()
	at := time.Now().Add(x.Settle)

	if hint.all {
		x.Metrics.Overrun(resources.SourceFile)
	}

	for _, root := range x.roots {
		if hint.all {
			root.want("", at)
		}

		for path, when := range hint.at {
			if !isUnder(path, root.path) {
				continue
			}

			if isDocument(filepath.Base(path)) {
				root.tracker.Touch(path, when)
			}

			switch isDirectory := root.scanner.has(path); {
			case isDirectory && hint.moved[path]: // another directory may be there now
				x.hints.forget(path)
				root.want("", at)
			case isDirectory:
				root.want(path, at)
			}

			if path != root.path {
				root.want(filepath.Dir(path), at)
			}
		}
	}
}

// step takes the looks that are due, reports what they mean, and returns how long nothing is due.
func (x *run) step(ctx context.Context) (time.Duration, error) {
	moving := 0

	for _, root := range x.roots {
		now := time.Now()
		if now.Before(root.due()) {
			continue
		}

		snapshot := root.look(now, x.Rescan, x.interval())
		x.checkWatches()

		if !snapshot.Available && x.hints != nil {
			x.hints.forget(root.path)
		}

		batch := root.tracker.Observe(snapshot, now)
		moving += batch.Moving

		if err := x.report(ctx, root, snapshot, batch); err != nil {
			return 0, err
		}

		if batch.Wait > 0 {
			for _, dir := range batch.Again {
				root.want(dir, time.Now().Add(batch.Wait))
			}
		}
	}

	x.Metrics.Pending(resources.SourceFile, moving)

	sleep, now := x.interval(), time.Now()
	for _, root := range x.roots {
		sleep = min(sleep, root.due().Sub(now))
	}

	return max(sleep, time.Millisecond), nil
}

// interval is the time between two scans of everything.
func (x *run) interval() time.Duration {
	if x.hints == nil || x.polling {
		return min(x.Poll, x.Rescan)
	}

	return x.Rescan
}

// checkWatches turns to polling once a directory can't be watched: the limit of watches (fs.inotify.max_user_watches) is reached,
// or the file system has none. What is watched is still noticed at once.
func (x *run) checkWatches() {
	if x.hints == nil || x.hints.refused == nil || x.polling {
		return
	}

	x.polling = true
	x.logger.Warn("some directories can't be watched: polling", zap.Error(x.hints.refused), zap.Duration("interval", x.Poll))

	for _, root := range x.roots {
		root.tracker.watched = false
	}
}
