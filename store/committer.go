package store

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Bounds of one transaction: what waits behind it waits for 8 MiB at most, a tenth of a second on a slow disk. Batches form
// by themselves: whatever was queued while one is written is the next.
const (
	maxBatchOps   = 8192
	maxBatchBytes = 8 << 20
)

// Backoff between attempts of a commit that failed; a full disk is looked at every five seconds.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	// closingRetries bounds the attempts after Close, which should not hang on a dead disk.
	closingRetries = 3
)

// committer writes prefixes of a queue, each in one transaction with one fsync.
type committer struct {
	queue *queue
	// write makes a batch durable, wholly or not at all.
	write   func([]op) error
	logger  *zap.Logger
	seconds prometheus.Observer

	ended chan struct{}
	err   error // valid once ended is closed
}

// run commits until the queue is closed and empty. It is the only goroutine that takes from the queue.
func (c *committer) run() {
	defer close(c.ended)

	for {
		batch := c.queue.take(maxBatchOps, maxBatchBytes)
		if batch == nil {
			return
		}

		if !c.commit(batch) {
			return
		}
	}
}

// commit tries until the batch is durable. It gives up, and returns false, only when the store is closing.
func (c *committer) commit(batch []op) bool {
	delay, closing := firstRetry, 0

	for attempt := 1; ; attempt++ {
		start := time.Now()
		err := c.write(batch)
		c.seconds.Observe(time.Since(start).Seconds())

		if err == nil {
			if attempt > 1 {
				c.logger.Info("the store can be written again", zap.Int("attempts", attempt))
			}

			c.queue.done(batch)

			return true
		}

		if attempt == 1 {
			c.logger.Error("the store can't be written; nothing is taken in until it can", zap.Error(err))
		}

		c.queue.failed(fmt.Errorf("%w: %w", ErrUnwritable, err))

		if closed, _ := c.queue.state(); closed {
			if closing++; closing >= closingRetries {
				waiting, _ := c.queue.length()
				c.err = fmt.Errorf("error writing the last %d changes, none of which was acknowledged: %w", waiting, err)

				return false
			}
		}

		c.pause(delay)
		delay = min(2*delay, lastRetry)
	}
}

// pause waits for about delay, with a quarter of jitter. Closing the queue ends it early.
func (c *committer) pause(delay time.Duration) {
	closed, progress := c.queue.state()
	if closed { // somebody waits for the end, and progress will not be made
		delay, progress = firstRetry, nil
	}

	timer := time.NewTimer(delay + rand.N(delay/4))
	defer timer.Stop()

	select {
	case <-timer.C:
	case <-progress:
	}
}
