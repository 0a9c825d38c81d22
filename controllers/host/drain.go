package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/controllers/chain"
	"gateway/resources"
)

// drainStatus says how far the drain of a host is; nil where it is not drained. Placement decides who moves: this is read
// from what it wrote.
func (c *Controller) drainStatus(ctx context.Context, r controller.QRuntime, host *resources.Host) (*resources.DrainStatus, error) {
	c.noteDrained(host.Metadata().ID(), host.TypedSpec().Drain)

	if !host.TypedSpec().Drain {
		return nil, nil //nolint:nilnil // not being drained is a state
	}

	list, err := r.ListUncached(ctx, resources.NewVMPlacement("").Metadata(),
		state.WithLabelQuery(resource.LabelEqual(resources.LabelHost, host.Metadata().ID())))
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs on host %q: %w", host.Metadata().ID(), err)
	}

	drain := &resources.DrainStatus{Left: len(list.Items)}

	for _, item := range list.Items {
		placement, ok := item.(*resources.VMPlacement)
		if !ok || !chain.Running(placement) {
			continue
		}

		if spec := placement.TypedSpec(); spec.Reason != resources.ReasonMoving {
			drain.Stays = append(drain.Stays, resources.VMReason{VM: placement.Metadata().ID(), Reason: stayReason(spec)})
		}
	}

	slices.SortFunc(drain.Stays, func(a, b resources.VMReason) int { return strings.Compare(a.VM, b.VM) })

	if len(drain.Stays) > resources.MaxListed {
		drain.Stays = drain.Stays[:resources.MaxListed]
	}

	return drain, nil
}

// stayReason is why a VM is on a host that is drained.
func stayReason(spec *resources.VMPlacementSpec) string {
	if spec.Message == "" {
		return "it is pinned to the host" // the one thing that a drain does not overrule
	}

	return spec.Message
}

// noteDrained keeps the hosts that are drained.
func (c *Controller) noteDrained(host resource.ID, drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if drained {
		c.drained[host] = struct{}{}
	} else {
		delete(c.drained, host)
	}
}

// drainedHosts are those that look again when a placement changes. They are few, and most of the time none.
func (c *Controller) drainedHosts() []resource.Pointer {
	c.mu.Lock()
	defer c.mu.Unlock()

	hosts := make([]resource.Pointer, 0, len(c.drained))
	for host := range c.drained {
		hosts = append(hosts, resources.NewHost(host).Metadata())
	}

	return hosts
}
