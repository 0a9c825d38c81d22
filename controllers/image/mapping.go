package image

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// MapInput implements controller.QController. Hosts and their connections are few and change seldom: all images look again.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	if ptr.Type() == resources.HostType {
		if err := c.hostChanged(ctx, r, ptr); err != nil {
			return nil, err
		}
	}

	wanted, asked := func(*resources.Image) bool { return true }, false

	if ptr.Type() == resources.ResyncType {
		resync, err := chain.Get[*resources.Resync](ctx, r, ptr)
		if err != nil || resync == nil {
			return nil, err
		}

		asked = resync.TypedSpec().Target != nil
		wanted = func(i *resources.Image) bool { return asks(resync.TypedSpec(), i) }
	}

	images, err := list[*resources.Image](ctx, r, resources.NewImage("").Metadata())
	if err != nil {
		return nil, err
	}

	var woken []resource.Pointer

	for _, i := range images {
		if !wanted(i) {
			continue
		}

		if ptr.Type() == resources.ResyncType {
			c.jobs.verify(i.Metadata().ID(), asked)
		}

		woken = append(woken, i.Metadata())
	}

	return woken, nil
}

// asks reports whether a resync is about the image: it names it, or its turn has come.
func asks(s *resources.ResyncSpec, i *resources.Image) bool {
	if s.Target != nil {
		return s.Target.Matches("Image", i.Metadata().ID(), i.Metadata().Labels().Raw())
	}

	return s.Contains(i.Metadata().ID(), nil)
}

// list returns all resources of a kind, past any cache.
func list[R resource.Resource](ctx context.Context, r controller.QRuntime, kind resource.Kind) ([]R, error) {
	items, err := r.ListUncached(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("error listing %s: %w", kind.Type(), err)
	}

	all := make([]R, 0, len(items.Items))

	for _, item := range items.Items {
		typed, ok := item.(R)
		if !ok {
			return nil, fmt.Errorf("%s %q has the Go type %T", kind.Type(), item.Metadata().ID(), item)
		}

		all = append(all, typed)
	}

	return all, nil
}
