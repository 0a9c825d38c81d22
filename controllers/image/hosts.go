package image

import (
	"context"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// staysAt reports whether the image is still to be listed at a host that is being taken away: until nobody else uses the host
// any more and the image's files are off it. A host that can't be reached is not waited for; it is looked at again should it
// be declared again.
func (p *pass) staysAt(h *resources.Host) bool {
	used := slices.ContainsFunc(*h.Metadata().Finalizers(), func(f string) bool {
		return f != finalizer && f != resources.ControllerHost
	})
	if used {
		return true
	}

	name := h.Metadata().ID()
	if p.clear(name) != "" {
		return true
	}

	if j := p.c.jobs.find(key{p.id(), name}); j != nil {
		p.c.jobs.drop(j)
	}

	return false
}

// tidy returns the job that takes the image's files off a host which is not to have it, once in each connection; nil: there is none to
// begin. Files may be there from before, where the host was declared anew after it was given up unreachable.
func (p *pass) tidy(host string) *job {
	connection := p.connections[host]
	if connection == nil || !connection.Connected {
		return nil
	}

	k := key{p.id(), host}

	if j := p.c.jobs.find(k); j != nil {
		if p.clearing(j) {
			return nil
		}

		p.c.jobs.take(j, connection.Generation)

		if j.outcome.err != nil || !j.removal {
			p.after(unreachableRetry)

			return nil
		}
	}

	if p.c.jobs.looked(k, connection.Generation) {
		return nil
	}

	return &job{key: k, removal: true}
}

// letGo releases the hosts that no image is on. The caller holds the lock.
func (c *Controller) letGo(ctx context.Context, r controller.QRuntime, hosts []*resources.Host) error {
	held := slices.DeleteFunc(slices.Clone(hosts), func(h *resources.Host) bool { return !chain.Has(h, finalizer) })
	if len(held) == 0 {
		return nil
	}

	statuses, err := list[*resources.ImageStatus](ctx, r, resources.NewImageStatus("").Metadata())
	if err != nil {
		return err
	}

	for _, h := range held {
		listed := slices.ContainsFunc(statuses, func(s *resources.ImageStatus) bool {
			return slices.ContainsFunc(s.TypedSpec().Hosts, func(e resources.ImageOnHost) bool { return e.Host == h.Metadata().ID() })
		})
		if listed {
			continue
		}

		if err := chain.Release(ctx, r, h.Metadata(), finalizer); err != nil {
			return err
		}
	}

	return nil
}

// hostChanged lets go of a host that is being taken away and that no image is on.
func (c *Controller) hostChanged(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) error {
	c.holds.Lock()
	defer c.holds.Unlock()

	host, err := chain.Get[*resources.Host](ctx, r, ptr)
	if err != nil || host == nil || chain.Running(host) {
		return err
	}

	return c.letGo(ctx, r, []*resources.Host{host})
}
