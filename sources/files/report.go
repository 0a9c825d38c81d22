package files

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// CloudEvents types of the events.
const (
	TypeChanged = "gateway.file.changed.v1"
	TypeGone    = "gateway.file.gone.v1"
)

// report writes what a look means: first that a scan with differences begins, then the events, then that it is complete. Whoever
// removes objects waits for the last.
func (x *run) report(ctx context.Context, root *root, snapshot Snapshot, batch Batch) error {
	spec := root.spec
	spec.Available, spec.Reason, spec.Message = snapshot.Available, snapshot.Reason, snapshot.Message

	if !snapshot.Available {
		return x.updateRoot(ctx, root, spec)
	}

	spec.Reason, spec.Message = resources.ReasonReady, ""
	if x.polling || x.hints == nil {
		spec.Message = fmt.Sprintf("changes can't be watched: looking every %s", x.interval())
	}

	spec.Files, spec.Unsettled = len(snapshot.Files), batch.Moving
	spec.Emptied = len(snapshot.Files) == 0 && (spec.Emptied || len(batch.Gone) > 0)

	if differs := len(batch.Changed)+len(batch.Gone) > 0; differs || batch.Held && spec.Begun == spec.Completed {
		spec.Begun++
	}

	if err := x.updateRoot(ctx, root, spec); err != nil {
		return err
	}

	for _, look := range batch.Changed {
		if err := x.announce(ctx, root, look); err != nil {
			return err
		}
	}

	for _, path := range batch.Gone {
		if err := x.tearDown(ctx, root, path); err != nil {
			return err
		}
	}

	if err := x.writeStatuses(ctx, root, snapshot); err != nil {
		return err
	}

	if !batch.Held {
		spec.Completed = spec.Begun
	}

	return x.updateRoot(ctx, root, spec)
}

// updateRoot writes the FileRoot if it changed, and says so when the root came or went.
func (x *run) updateRoot(ctx context.Context, root *root, spec resources.FileRootSpec) error {
	if spec == root.spec && spec.Reason != "" {
		return nil
	}

	if spec.Available != root.spec.Available || spec.Reason != root.spec.Reason || spec.Message != root.spec.Message {
		level := zapcore.InfoLevel
		if !spec.Available {
			level = zapcore.WarnLevel // what it declared stays, and nothing new comes of it
		}

		x.logger.Log(level, "documents directory", zap.String("root", root.path), zap.Bool("available", spec.Available), zap.String("message", spec.Message))
	}

	if err := x.writeRoot(ctx, spec); err != nil {
		return err
	}

	root.spec = spec

	return nil
}

func (x *run) writeRoot(ctx context.Context, spec resources.FileRootSpec) error {
	err := safe.WriterModify(ctx, x.r, resources.NewFileRoot(resources.FileID(spec.Path)), func(res *resources.FileRoot) error {
		*res.TypedSpec() = spec

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the file root %q: %w", spec.Path, err)
	}

	return nil
}

// announce writes the FileEvent of a file that is new or changed.
func (x *run) announce(ctx context.Context, root *root, look Look) error {
	if err := x.pace.Before(ctx); err != nil {
		return err
	}

	var event resources.EventAttributes

	err := safe.WriterModify(ctx, x.r, resources.NewFileEvent(resources.FileID(look.Path)), func(res *resources.FileEvent) error {
		spec := res.TypedSpec()
		sequence, now := spec.Event.Sequence+1, time.Now()

		*spec = resources.FileEventSpec{
			Path: look.Path, Root: root.path, Digest: look.Digest, Bytes: look.Bytes,
			Event: resources.EventAttributes{
				ID:     resources.EventID(resources.SourceFile, look.Path, look.Digest, now.UTC().Format(time.RFC3339Nano)),
				Source: resources.SourceFile, Name: look.Path, Type: TypeChanged, Subject: "file" + look.Path, Time: look.Changed,
				DataContentType: contentType(look.Path), Received: now, Sequence: sequence, Digest: look.Digest, Bytes: look.Bytes,
			},
		}
		res.Metadata().Finalizers().Add(resources.FinalizerDocuments)
		event = spec.Event

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the event of %q: %w", look.Path, err)
	}

	x.Metrics.Received(resources.SourceFile)

	return intake.Record(x.Journal, &event, "", "")
}

func contentType(path string) string {
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return "application/json"
	}

	return "application/yaml"
}

// tearDown starts the removal of a vanished file's event, which documents takes part in.
func (x *run) tearDown(ctx context.Context, root *root, path string) error {
	if err := x.pace.Before(ctx); err != nil {
		return err
	}

	gone, err := intake.Drop(ctx, x.r, resources.NewFileEvent(resources.FileID(path)).Metadata())
	if err != nil {
		return err
	}

	if gone {
		root.tracker.Released(path)
	}

	x.Metrics.Received(resources.SourceFile)

	if x.Journal == nil {
		return nil
	}

	now := time.Now()

	err = x.Journal.Append(store.Entry{
		Time: now, Class: store.ClassEvent, Source: resources.SourceFile, Name: path, Message: "gone",
		EventID: resources.EventID(resources.SourceFile, path, TypeGone, now.UTC().Format(time.RFC3339Nano)),
	})
	if err != nil {
		return fmt.Errorf("error recording that %q is gone: %w", path, err)
	}

	return nil
}

// destroyReleased destroys the torn-down events that documents let go of. Their files, if they are back, are looked at again.
func (x *run) destroyReleased(ctx context.Context) error {
	list, err := safe.ReaderListAll[*resources.FileEvent](ctx, x.r)
	if err != nil {
		return fmt.Errorf("error listing file events: %w", err)
	}

	for event := range list.All() {
		if event.Metadata().Phase() != resource.PhaseTearingDown || !event.Metadata().Finalizers().Empty() {
			continue
		}

		gone, err := intake.Drop(ctx, x.r, event.Metadata())
		if err != nil {
			return err
		}

		for _, root := range x.roots {
			if gone && root.path == event.TypedSpec().Root {
				root.tracker.Released(event.TypedSpec().Path)
				root.want(filepath.Dir(event.TypedSpec().Path), time.Now())
			}
		}
	}

	return nil
}

// writeStatuses brings the FileStatuses up to date with a snapshot.
func (x *run) writeStatuses(ctx context.Context, root *root, snapshot Snapshot) error {
	wanted := x.wantedStatuses(root, snapshot)

	for path, status := range wanted {
		if known, ok := root.statuses[path]; ok && known == status {
			continue
		}

		if err := x.pace.Before(ctx); err != nil {
			return err
		}

		err := safe.WriterModify(ctx, x.r, resources.NewFileStatus(resources.FileID(path)), func(res *resources.FileStatus) error {
			*res.TypedSpec() = status

			return nil
		})
		if err != nil {
			return fmt.Errorf("error writing the status of %q: %w", path, err)
		}

		if status.Error != "" && status.Error != root.statuses[path].Error {
			x.logger.Warn("a file can't be taken; its last good version stays in force", zap.String("file", path), zap.String("reason", status.Error))
		}

		root.statuses[path] = status
	}

	for _, path := range slices.Collect(maps.Keys(root.statuses)) {
		if _, ok := wanted[path]; ok || snapshot.hides(path) {
			continue
		}

		if _, err := intake.Drop(ctx, x.r, resources.NewFileStatus(resources.FileID(path)).Metadata()); err != nil {
			return err
		}

		delete(root.statuses, path)
	}

	return nil
}

// wantedStatuses are those of all entries of the snapshot. The digest is that of the version that was reported.
func (x *run) wantedStatuses(root *root, snapshot Snapshot) map[string]resources.FileStatusSpec {
	wanted := make(map[string]resources.FileStatusSpec, len(snapshot.Files))

	for path, look := range snapshot.Files {
		status := resources.FileStatusSpec{Path: path, Root: root.path, Digest: root.tracker.known[path], Error: look.Err}

		switch before := root.statuses[path]; {
		case status.Digest != "" && status.Digest == look.Digest:
			status.Bytes = look.Bytes
		case status.Digest != "" && status.Digest == before.Digest:
			status.Bytes = before.Bytes
		case status.Digest == "" && status.Error == "": // not settled yet
			continue
		}

		wanted[path] = status
	}

	for dir, why := range snapshot.Unreadable {
		wanted[dir] = resources.FileStatusSpec{Path: dir, Root: root.path, Error: why}
	}

	for path := range root.tracker.known {
		if _, there := wanted[path]; !there { // vanished, not yet for good
			if before, ok := root.statuses[path]; ok {
				wanted[path] = before
			}
		}
	}

	return wanted
}
