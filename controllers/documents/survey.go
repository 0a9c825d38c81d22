package documents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
)

// survey is what a sweep knows of one root.
type survey struct {
	root *resources.FileRootSpec
	// files are the running events under the root by path, results what became of them.
	files   map[string]*resources.FileEvent
	results map[string]*resources.ApplyResultSpec
	// waiting is the number of files that are not handled yet, counted up to burst.
	waiting int
	// objects are those that files under the root declared, which exist and are not being torn down.
	objects []resource.Resource
}

// look reads what a sweep needs. The objects are read only when every file is handled.
func look(ctx context.Context, r controller.UncachedReader, root *resources.FileRootSpec) (*survey, error) {
	s := &survey{root: root, files: map[string]*resources.FileEvent{}, results: map[string]*resources.ApplyResultSpec{}}

	events, err := filesUnder(ctx, r, root.Path)
	if err != nil {
		return nil, err
	}

	for _, event := range events {
		result, err := resultOf(ctx, r, event.Metadata().ID())
		if err != nil {
			return nil, err
		}

		if !chain.Running(event) || !isHandled(event, result) {
			// During a burst each look would be through all files, only to find that the sweep has to wait.
			if s.waiting++; s.waiting > burst {
				return s, nil
			}

			continue
		}

		s.files[event.TypedSpec().Path], s.results[event.TypedSpec().Path] = event, result.TypedSpec()
	}

	if s.waiting > 0 {
		return s, nil
	}

	return s, s.readObjects(ctx, r)
}

// filesUnder returns the events of the files under a root.
func filesUnder(ctx context.Context, r controller.UncachedReader, root string) ([]*resources.FileEvent, error) {
	list, err := r.ListUncached(ctx, resources.NewFileEvent("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the files of %s: %w", root, err)
	}

	var events []*resources.FileEvent

	for _, item := range list.Items {
		if event, ok := item.(*resources.FileEvent); ok && event.TypedSpec().Root == root {
			events = append(events, event)
		}
	}

	return events, nil
}

// isHandled reports whether a result is that of a file's newest event.
func isHandled(event *resources.FileEvent, result *resources.ApplyResult) bool {
	return result != nil && result.TypedSpec().Sequence == event.TypedSpec().Event.Sequence
}

func (s *survey) readObjects(ctx context.Context, r controller.UncachedReader) error {
	for _, kind := range resources.DeclaredKinds() {
		list, err := r.ListUncached(ctx, kind.List())
		if err != nil {
			return fmt.Errorf("error listing the %s of %s: %w", kind.Plural, s.root.Path, err)
		}

		for _, object := range list.Items {
			origin := resources.OriginOf(object.Metadata())
			if !resources.IsLeaving(object.Metadata()) && origin.Source == resources.OriginFile && origin.Root == s.root.Path {
				s.objects = append(s.objects, object)
			}
		}
	}

	return nil
}

// orphan is an object that its file no longer declares.
type orphan struct {
	kind   *resources.Kind
	name   string
	origin resources.Origin
}

func (o orphan) String() string { return objectName(o.kind.Name, o.name) }

// orphans returns the objects that no file under the root declares any more, and those that another file waits for, by the
// path of that file. What VMs stand on comes after the VMs.
func (s *survey) orphans() (gone []orphan, moved map[string][]orphan) {
	listed := map[string][]string{} // paths by object

	for _, path := range resources.SortedKeys(s.results) {
		for _, o := range s.results[path].Objects {
			name := objectName(o.Kind, o.Name)
			listed[name] = append(listed[name], path)
		}
	}

	moved = map[string][]orphan{}

	for _, object := range s.objects {
		o := orphan{kind: resources.KindOf(object.Metadata()), name: object.Metadata().ID(), origin: resources.OriginOf(object.Metadata())}

		switch paths := listed[o.String()]; {
		case slices.Contains(paths, o.origin.Name):
		case len(paths) > 0:
			moved[paths[0]] = append(moved[paths[0]], o)
		default:
			gone = append(gone, o)
		}
	}

	slices.SortFunc(gone, func(a, b orphan) int {
		if byRank := rank(b.kind.Name) - rank(a.kind.Name); byRank != 0 {
			return byRank
		}

		return strings.Compare(a.String(), b.String())
	})

	return gone, moved
}

// cause is what led to the object's removal: the file's newest event, or its path where it is gone.
func (s *survey) cause(o orphan) string {
	if event, ok := s.files[o.origin.Name]; ok {
		return event.TypedSpec().Event.ID
	}

	return o.origin.String()
}

// isMass reports whether the removal of n of the root's objects waits for a confirmation.
func (s *survey) isMass(n int, d config.Deletions) bool {
	return n > 0 && s.root.Emptied || d.IsMass(n, len(s.objects))
}

// digestOf identifies a set of objects.
func digestOf(gone []orphan) string {
	names := make([]string, len(gone))
	for i, o := range gone {
		names[i] = o.String()
	}

	slices.Sort(names)

	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))

	return hex.EncodeToString(sum[:])
}
