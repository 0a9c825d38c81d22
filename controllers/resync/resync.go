package resync

import (
	"context"
	"fmt"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/resources"
)

const (
	// DefaultInterval is how long one round over all VMs takes.
	DefaultInterval = 5 * time.Minute
	// DefaultSliceSize bounds the VMs that are put into the controllers' queues at once. A queue is linear: 500 items cost a
	// push some 5 µs, and are worked off within a second by 16 workers on a host that answers in 10 ms.
	DefaultSliceSize = 500
	// minPause is the least time between two slices, so that a large number of VMs lengthens the round instead of
	// crowding the queues: 500 VMs a second are above what the workers of a slow host do.
	minPause = time.Second
	// Cause is what the reconciles are caused by.
	Cause = "resync"
)

// Options of the controller.
type Options struct {
	// Interval is how long one round over all VMs takes; 0: DefaultInterval. It takes longer with more than SliceSize VMs
	// a second.
	Interval time.Duration
	// SliceSize is about how many VMs are asked for at once; 0: DefaultSliceSize.
	SliceSize int
}

// Controller writes the Resync resources. It implements controller.Controller.
type Controller struct {
	interval  time.Duration
	sliceSize int
}

// New returns the controller.
func New(o Options) *Controller {
	c := &Controller{interval: o.Interval, sliceSize: o.SliceSize}
	if c.interval <= 0 {
		c.interval = DefaultInterval
	}

	if c.sliceSize <= 0 {
		c.sliceSize = DefaultSliceSize
	}

	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return resources.ControllerResync }

// Inputs implements controller.Controller. The VMs are an input so that they may be counted; changes of them are ignored.
func (c *Controller) Inputs() []controller.Input {
	return []controller.Input{{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputWeak}}
}

// Outputs implements controller.Controller. The API writes Resync resources too, for `sync`.
func (c *Controller) Outputs() []controller.Output {
	return []controller.Output{{Type: resources.ResyncType, Kind: controller.OutputShared}}
}

// Run implements controller.Controller: rounds of slices, until ctx ends. The first round begins an interval after the
// start, as a start looks at everything by itself.
func (c *Controller) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	var (
		slices uint32 = 1
		next   uint32
		timer  = time.NewTimer(c.interval)
	)

	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
			continue // drained, so that the runtime does not wait for us
		case <-timer.C:
		}

		if next == 0 { // a round has one number of slices, or a VM could be left out
			var err error
			if slices, err = c.count(ctx, r); err != nil {
				return err
			}
		}

		if err := c.ask(ctx, r, next, slices); err != nil {
			return err
		}

		next = (next + 1) % slices
		timer.Reset(max(c.interval/time.Duration(slices), minPause))
	}
}

// count returns the number of slices for the VMs that there are now.
func (c *Controller) count(ctx context.Context, r controller.Runtime) (uint32, error) {
	list, err := r.ListUncached(ctx, resources.NewVMConfig("").Metadata())
	if err != nil {
		return 0, fmt.Errorf("error counting the VMs: %w", err)
	}

	return uint32(max(1, (len(list.Items)+c.sliceSize-1)/c.sliceSize)), nil //nolint:gosec // far below 2³²
}

// ask writes one slice.
func (c *Controller) ask(ctx context.Context, r controller.Runtime, slice, slices uint32) error {
	id := fmt.Sprintf("slice-%d", slice)

	err := r.Modify(ctx, resources.NewResync(id), func(res resource.Resource) error {
		resync, ok := res.(*resources.Resync)
		if !ok {
			return fmt.Errorf("resync %q has the Go type %T", id, res)
		}

		s := resync.TypedSpec()
		s.Slice, s.Slices, s.Cause = slice, slices, Cause
		s.Sequence++

		return nil
	})
	if err != nil {
		return fmt.Errorf("error asking for slice %d of %d: %w", slice, slices, err)
	}

	return nil
}
