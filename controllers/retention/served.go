package retention

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/resources"
)

const (
	// interval is how often the events and actions are looked through. At 1,000 events a second there are 6,000 of them,
	// which takes some ten milliseconds.
	interval = time.Second
	// keep is how long those stay at least that are needed: MapInput of those whom the event concerns reads its target.
	keep = 5 * time.Second
	// keepResync is the same for requests to look again, counted from the last one.
	keepResync = time.Minute
	// batch is how many are destroyed between two looks at the queues, which each destruction lengthens.
	batch = 100
)

// served are the kinds that are looked through, and how long one that is needed stays since since.
var served = []struct {
	kind  resource.Kind
	keep  time.Duration
	since func(*resource.Metadata) time.Time
	// prefix of the ids that are meant; empty: all.
	prefix string
}{
	{resources.NewWebhookEvent("").Metadata(), keep, created, ""},
	{resources.NewMessageEvent("").Metadata(), keep, created, ""},
	{resources.NewAction("").Metadata(), keep, created, ""},
	{resources.NewResync("").Metadata(), keepResync, updated, "sync."},
}

func created(md *resource.Metadata) time.Time { return md.Created() }

func updated(md *resource.Metadata) time.Time { return md.Updated() }

// run looks once a second. An error is logged and tried again at the next look.
func (c *Controller) run(ctx context.Context, logger *zap.Logger, r controller.QRuntime) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}

		if err := c.look(ctx, r); err != nil && ctx.Err() == nil {
			logger.Warn("events that were handled could not be taken away", zap.Error(err))
		}
	}
}

// look destroys what has served.
func (c *Controller) look(ctx context.Context, r controller.QRuntime) error {
	now, destroyed := time.Now(), 0

	for _, s := range served {
		list, err := r.ListUncached(ctx, s.kind)
		if err != nil {
			return fmt.Errorf("error listing %s: %w", s.kind.Type(), err)
		}

		for _, item := range list.Items {
			md := item.Metadata()
			if !md.Finalizers().Empty() || needed(item) && isFresh(now.Sub(s.since(md)), s.keep) || !strings.HasPrefix(md.ID(), s.prefix) {
				continue
			}

			if destroyed++; destroyed%batch == 0 {
				if err := c.pacer.Wait(ctx); err != nil {
					return err
				}
			}

			if err := destroy(ctx, r, item); err != nil {
				return err
			}
		}
	}

	return nil
}

// isFresh reports whether something of an age is kept. What seems to be of the future was made before a restart, when the clock
// was ahead, and would stay for as long as it was.
func isFresh(age, keep time.Duration) bool { return age >= 0 && age < keep }

// needed reports whether somebody may still want an event that nobody has to handle: those who read its target, and the sender who
// waits for what became of its documents. Of what is no event nobody knows.
func needed(r resource.Resource) bool {
	switch spec := r.Spec().(type) {
	case *resources.WebhookEventSpec:
		return spec.Event.Target != nil || spec.Apply != nil
	case *resources.MessageEventSpec:
		return spec.Event.Target != nil || spec.Apply != nil
	}

	return true
}

// destroy takes a resource out of the state in the name of who made it, without a teardown first: nobody holds it, and each
// write is one more look of everybody whom the event concerned. One that is gone, or that somebody holds again, is success.
func destroy(ctx context.Context, r controller.Writer, res resource.Resource) error {
	md := res.Metadata()

	err := r.Destroy(ctx, md, controller.WithOwner(md.Owner()))
	if err != nil && !state.IsNotFoundError(err) && !state.IsConflictError(err) {
		return fmt.Errorf("error destroying %s %q: %w", md.Type(), md.ID(), err)
	}

	return nil
}
