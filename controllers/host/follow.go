package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/resources"
)

// causeConnection is the cause of a look at a host whose connection changed.
const causeConnection = "connection"

// wakeID is the id of the Resync that wakes a host.
func wakeID(host resource.ID) resource.ID { return "connection." + host }

// follow wakes a host when its connection changes. The runtime lets nothing from outside into a queue, so it is done by a
// resource that maps to the host. It runs until ctx ends; after an error the runtime starts it again, and the interval of
// the host makes up for what was lost.
func (c *Controller) follow(ctx context.Context, _ *zap.Logger, r controller.QRuntime) error {
	changed := newSet()
	defer c.pool.Watch(changed.add)()

	// What changed before the watch stood was not told to anybody.
	list, err := r.ListUncached(ctx, resources.NewHost("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the hosts: %w", err)
	}

	for _, h := range list.Items {
		changed.add(h.Metadata().ID())
	}

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed.notEmpty:
		}

		for _, host := range changed.take() {
			if err := wake(ctx, r, host); err != nil {
				return err
			}
		}
	}
}

func wake(ctx context.Context, r controller.QRuntime, host string) error {
	err := r.Modify(ctx, resources.NewResync(wakeID(host)), func(res resource.Resource) error {
		resync, ok := res.(*resources.Resync)
		if !ok {
			return fmt.Errorf("resync %q has the Go type %T", res.Metadata().ID(), res)
		}

		s := resync.TypedSpec()
		s.Target, s.Cause = &resources.Target{Kind: "Host", Name: host}, causeConnection
		s.Sequence++

		return nil
	})
	if err != nil {
		return fmt.Errorf("error waking host %q: %w", host, err)
	}

	return nil
}

// set collects hosts without ever blocking who adds them.
type set struct {
	// notEmpty has room for one signal, which stands for all hosts in the set.
	notEmpty chan struct{}

	mu    sync.Mutex // guards hosts
	hosts map[string]struct{}
}

func newSet() *set {
	return &set{notEmpty: make(chan struct{}, 1), hosts: map[string]struct{}{}}
}

func (s *set) add(host string) {
	s.mu.Lock()
	s.hosts[host] = struct{}{}
	s.mu.Unlock()

	select {
	case s.notEmpty <- struct{}{}:
	default:
	}
}

// take empties the set.
func (s *set) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	hosts := resources.SortedKeys(s.hosts)
	clear(s.hosts)

	return hosts
}
