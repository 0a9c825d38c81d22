package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"gateway/resources"
)

// Pauses between attempts to listen: a stream that does not exist yet, a server that is away.
const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
	// removeTimeout bounds the removal of a consumer whose document is gone.
	removeTimeout = 5 * time.Second
	// breath is how long intake waits when too much is pending.
	breath = 100 * time.Millisecond
)

// worker listens for one Subscription document.
type worker struct {
	c        *Controller
	name     string
	uid      string
	revision int64
	spec     resources.SubscriptionSpec
	cancel   context.CancelFunc
	done     chan struct{}

	mu        sync.Mutex // guards the following
	counts    resources.SourceCounts
	condition resources.Condition
	changed   bool
	removed   bool
}

func newWorker(c *Controller, s *resources.Subscription) *worker {
	return &worker{
		c: c, name: s.Metadata().ID(), uid: resources.UIDOf(s.Metadata()), revision: resources.RevisionOf(s.Metadata()),
		spec: s.TypedSpec().DeepCopy(), done: make(chan struct{}), changed: true,
		condition: resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionUnknown, Reason: resources.ReasonWaiting},
	}
}

func (w *worker) isOf(s *resources.Subscription) bool {
	return resources.UIDOf(s.Metadata()) == w.uid && resources.RevisionOf(s.Metadata()) == w.revision
}

// stop ends the worker and waits for it. removed says that the document is gone: its consumer goes with it.
func (w *worker) stop(removed bool) {
	w.mu.Lock()
	w.removed = removed
	w.mu.Unlock()
	w.cancel()
	<-w.done
}

// take returns what is to be reported, and whether it changed since the last call.
func (w *worker) take() (resources.SourceCounts, resources.Condition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	changed := w.changed
	w.changed = false

	return w.counts, w.condition, changed
}

func (w *worker) note(change func(*resources.SourceCounts)) {
	w.mu.Lock()
	defer w.mu.Unlock()

	change(&w.counts)
	w.changed = true
}

// set changes the condition and logs that, once for each change: a server that is away for an hour is two lines.
func (w *worker) set(status resources.ConditionStatus, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.condition.Status == status && w.condition.Reason == reason {
		if w.condition.Message != message {
			w.condition.Message, w.changed = message, true
		}

		return
	}

	w.condition.Status, w.condition.Reason, w.condition.Message = status, reason, message
	w.changed = true

	if status == resources.ConditionTrue {
		w.c.Logger.Info("subscription listens", zap.String("subscription", w.name), zap.String("subject", w.spec.Subject))
	} else {
		w.c.Logger.Warn("subscription does not listen", zap.String("subscription", w.name), zap.String("reason", reason), zap.String("message", message))
	}
}

// run listens until ctx ends, again and again.
func (w *worker) run(ctx context.Context) {
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		start := time.Now()
		err := w.listen(ctx)

		if ctx.Err() != nil {
			w.removeConsumer()

			return
		}

		if time.Since(start) > maxRetry {
			pause = minRetry
		}

		w.set(resources.ConditionFalse, reasonOf(err), err.Error())

		select {
		case <-ctx.Done():
			w.removeConsumer()

			return
		case <-time.After(pause):
		}
	}
}

// refusal is a reason that a document can't be listened for.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

func reasonOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}

	return resources.ReasonDisconnected
}

func (w *worker) listen(ctx context.Context) error {
	connection := w.c.Connection()

	switch {
	case connection == nil:
		return errors.New("NATS is not connected yet")
	case w.spec.Apply != nil && connection.Open:
		return &refusal{resources.ReasonBrokerNoAuth, "anybody can publish to the embedded NATS server: set nats.embedded.tokenFile before messages may declare objects"}
	case w.c.Names.Owns(w.spec.Subject):
		return &refusal{resources.ReasonPolicyRefused, fmt.Sprintf("the subject %q is the gateway's own", w.spec.Subject)}
	case w.spec.Stream == "":
		return w.listenCore(ctx, connection)
	default:
		return w.listenStream(ctx, connection)
	}
}

// waitForRoom returns when more may be taken in: backlog stays where it is, not in memory.
func (w *worker) waitForRoom(ctx context.Context) error {
	for w.c.pending.Full() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(breath):
		}
	}

	if w.c.Pacer == nil {
		return nil
	}

	return w.c.Pacer.Wait(ctx)
}
