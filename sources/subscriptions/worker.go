package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/resources"
)

// timing are the pauses of the source. Only tests change them.
type timing struct {
	// minRetry and maxRetry are the first and the longest pause between attempts to listen: a stream that does not exist
	// yet, a server that is away.
	minRetry, maxRetry time.Duration
	// breath is how often intake looks again while too much is pending.
	breath time.Duration
	// delay is when a message comes again after so many deliveries.
	delay func(deliveries uint64) time.Duration
}

func defaultTiming() timing {
	return timing{minRetry: time.Second, maxRetry: 30 * time.Second, breath: 100 * time.Millisecond, delay: delayOf}
}

// delayOf doubles from one second to a minute.
func delayOf(deliveries uint64) time.Duration {
	return min(time.Second<<min(max(deliveries, 1)-1, 10), time.Minute)
}

// worker listens for one Subscription document.
type worker struct {
	c        *Controller
	name     string
	uid      string
	revision int64
	spec     resources.SubscriptionSpec
	cancel   context.CancelFunc
	done     chan struct{}

	// The following are owned by run's goroutine.
	// replaces says that another document of this name was there before, whose consumer is not gone on with.
	replaces bool
	// since is from when on messages are wanted should the consumer be made anew: that of the newest message that was taken in,
	// or when the first attempt to listen failed.
	since time.Time
	// taken says that since is that of a message.
	taken bool
	// failing says that messages could not be stored or acknowledged: it is not ready before one was.
	failing bool
	// patience are the messages that can't be taken and come again.
	patience map[uint64]struct{}

	mu        sync.Mutex // guards the following
	counts    resources.SourceCounts
	condition resources.Condition
	changed   bool
}

func newWorker(c *Controller, s *resources.Subscription) *worker {
	return &worker{
		c: c, name: s.Metadata().ID(), uid: resources.UIDOf(s.Metadata()), revision: resources.RevisionOf(s.Metadata()),
		spec: s.TypedSpec().DeepCopy(), done: make(chan struct{}), changed: true, patience: map[uint64]struct{}{},
		condition: resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionUnknown, Reason: resources.ReasonWaiting},
	}
}

func (w *worker) isOf(s *resources.Subscription) bool {
	return resources.UIDOf(s.Metadata()) == w.uid && resources.RevisionOf(s.Metadata()) == w.revision
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
	started := time.Now()

	for pause := w.c.timing.minRetry; ; pause = min(2*pause, w.c.timing.maxRetry) {
		start := time.Now()
		err := w.listen(ctx)

		if ctx.Err() != nil {
			return
		}

		if w.since.IsZero() {
			w.since = started
		}

		if time.Since(start) > w.c.timing.maxRetry {
			pause = w.c.timing.minRetry
		}

		w.set(resources.ConditionFalse, reasonOf(err), err.Error())

		if !sleep(ctx, pause) {
			return
		}
	}
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// refusal is a reason that a document can't be listened for.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

func reasonOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}

	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return resources.ReasonWaiting
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

// link shows whether the server is there: the client library subscribes again by itself.
func (w *worker) link(connection *Connection) {
	if connection.NATS.IsConnected() {
		w.set(resources.ConditionTrue, resources.ReasonReady, "")
	} else {
		w.set(resources.ConditionFalse, resources.ReasonDisconnected, "NATS is not connected")
	}
}

// waitForRoom waits until more may be taken in, at most for as long as limit, unless that is 0: backlog stays where it is, not
// in memory. It reports whether there is room.
func (w *worker) waitForRoom(ctx context.Context, limit time.Duration) (bool, error) {
	for start := time.Now(); w.c.pending.Full(); {
		if limit > 0 && time.Since(start) > limit {
			return false, nil
		}

		if !sleep(ctx, w.c.timing.breath) {
			return false, ctx.Err()
		}
	}

	if w.c.Pacer == nil {
		return true, ctx.Err()
	}

	if err := w.c.Pacer.Wait(ctx); err != nil {
		return false, err
	}

	return true, nil
}
