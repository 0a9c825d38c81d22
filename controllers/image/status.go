package image

import (
	"context"
	"fmt"
	"reflect"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// write writes the status, if it is something else than before.
func (p *pass) write(ctx context.Context, entries []resources.ImageOnHost, ready resources.Condition) error {
	status := *resources.NewImageStatus(p.id()).TypedSpec()
	if p.current != nil {
		status = p.current.TypedSpec().DeepCopy()
	}

	status.Hosts = entries
	status.ObservedRevision = resources.RevisionOf(p.image.Metadata())
	status.Conditions = resources.SetCondition(status.Conditions, ready, p.now)

	if p.current != nil && reflect.DeepEqual(status, *p.current.TypedSpec()) {
		return nil
	}

	err := p.r.Modify(ctx, resources.NewImageStatus(p.id()), func(r resource.Resource) error {
		s, ok := r.(*resources.ImageStatus)
		if !ok {
			return fmt.Errorf("the status of image %q has the Go type %T", p.id(), r)
		}

		*s.TypedSpec() = status
		resources.SetCause(s.Metadata(), resources.CauseOf(p.image.Metadata()))

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the status of image %q: %w", p.id(), err)
	}

	return nil
}
