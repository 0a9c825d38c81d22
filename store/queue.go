package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of the queue. COSI calls Put under the lock of a collection, so what waits there should be short: 64 MiB are written
// in under a second by a disk that takes 100 MB/s, and hold 16,000 writes of 4 KiB, five seconds of work for the slowest
// committer that was measured (2,800 writes/s). Journal entries never wait; they are refused above twice the bound, which
// nobody reaches who waits for the barrier of what he took in.
const (
	maxQueueBytes   = 64 << 20
	maxJournalBytes = 2 * maxQueueBytes
	// maxRecordBytes of one write: four times the largest document file.
	maxRecordBytes = 16 << 20
	maxKeyBytes    = 4 << 10
)

// ErrClosed says that the store is closed.
var ErrClosed = errors.New("the store is closed")

// ErrUnwritable says that the store can't be written at the moment, as on a full disk. It is logged where it begins and ends.
var ErrUnwritable = errors.New("the store can't be written")

// stuckAfter is how long a commit may take before the store counts as unhealthy: libvirt's own calls give up after less.
const stuckAfter = 10 * time.Second

// queue holds writes in the one order in which they become durable. Everything that anybody can read from the state was
// queued before it could be read, so that each prefix of the queue is closed under causes.
type queue struct {
	mu sync.Mutex // guards the following

	ops   fifo[op]
	bytes int64
	// appended and committed count ops since the start.
	appended, committed uint64
	failure             error
	started             time.Time // of the commit that is running
	closed              bool
	// progress is closed, and made anew, when committed, failure or closed changes.
	progress chan struct{}
	// work holds a token while there is something for the committer to do.
	work chan struct{}
}

func newQueue() *queue {
	return &queue{progress: make(chan struct{}), work: make(chan struct{}, 1)}
}

// put appends a write. It waits while the queue is full, and refuses while the store can't be written.
func (q *queue) put(ctx context.Context, o op) error {
	return q.wait(ctx, o, func() { q.append(o) })
}

// room waits until there is room for a write as put does. Others may take it before it is pushed, which passes the bound by
// as many writes as there are collections.
func (q *queue) room(ctx context.Context, o op) error {
	return q.wait(ctx, o, func() {})
}

// wait calls then, with q.mu held, when a write may be queued.
func (q *queue) wait(ctx context.Context, o op, then func()) error {
	if len(o.key) > maxKeyBytes || o.size() > maxRecordBytes {
		return fmt.Errorf("the object has %d bytes, at most %d are stored", o.size(), maxRecordBytes)
	}

	for {
		q.mu.Lock()

		if err := q.writable(); err != nil {
			q.mu.Unlock()

			return err
		}

		if q.bytes <= maxQueueBytes {
			then()
			q.mu.Unlock()

			return nil
		}

		progress := q.progress
		q.mu.Unlock()

		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("error waiting for the store to catch up: %w", context.Cause(ctx))
		}
	}
}

// push appends writes of the journal, without waiting.
func (q *queue) push(ops ...op) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	if err := q.writable(); err != nil {
		return err
	}

	if q.bytes > maxJournalBytes {
		return fmt.Errorf("%d bytes wait to be written, more than %d", q.bytes, maxJournalBytes)
	}

	q.append(ops...)

	return nil
}

// writable says why nothing may be queued. q.mu is held.
func (q *queue) writable() error {
	if q.closed {
		return ErrClosed
	}

	return q.failure
}

func (q *queue) append(ops ...op) {
	q.ops.push(ops...)
	q.appended += uint64(len(ops))

	for i := range ops {
		q.bytes += ops[i].size()
	}

	q.signal()
}

func (q *queue) signal() {
	select {
	case q.work <- struct{}{}:
	default:
	}
}

// barrier returns when everything that was queued before the call is committed.
func (q *queue) barrier(ctx context.Context) error {
	q.mu.Lock()
	target := q.appended
	q.mu.Unlock()

	for {
		q.mu.Lock()
		done, failure, progress := q.committed >= target, q.failure, q.progress
		ended := q.closed && q.failure != nil
		q.mu.Unlock()

		if done {
			return nil
		}

		if ended {
			return fmt.Errorf("error waiting for the store: %w", errors.Join(ErrClosed, failure))
		}

		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("error waiting for the store: %w", errors.Join(context.Cause(ctx), failure))
		}
	}
}

// take waits for writes and returns the oldest, at most maxOps of them and maxBytes, but at least one, and what is joined to the
// last. It returns nil when the queue is closed and empty. Only the committer calls it.
func (q *queue) take(maxOps int, maxBytes int64) []op {
	for {
		q.mu.Lock()

		if n := q.ops.len(); n > 0 {
			batch := q.ops.firstN(min(n, maxOps))
			total := int64(0)

			for i := range batch {
				total += batch[i].size()
				if i > 0 && total > maxBytes {
					batch = batch[:i]

					break
				}
			}

			batch = q.ops.firstN(whole(q.ops.firstN(n), len(batch)))
			q.started = time.Now()
			q.mu.Unlock()

			return batch
		}

		closed := q.closed
		q.mu.Unlock()

		if closed {
			return nil
		}

		<-q.work
	}
}

// whole returns how many ops have to be taken with the n oldest so that none is parted from those that it is joined to.
func whole(ops []op, n int) int {
	for n > 0 && n < len(ops) && ops[n-1].joined {
		n++
	}

	return n
}

// done takes a committed batch off the queue and tells everybody who waits.
func (q *queue) done(batch []op) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for i := range batch {
		q.bytes -= batch[i].size()
	}

	q.committed += uint64(len(batch))
	q.ops.drop(len(batch))
	q.failure, q.started = nil, time.Time{}
	q.wake()
}

// failed makes the queue refuse writes until a commit succeeds.
func (q *queue) failed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.failure = err
	q.wake()
}

// wake tells everybody who waits to look again. q.mu is held.
func (q *queue) wake() {
	close(q.progress)
	q.progress = make(chan struct{})
}

// close refuses further writes. The committer writes what is there and ends.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.closed = true
	q.wake()
	q.signal()
}

// state returns whether the queue is closed, and what is closed when that, or anything else, changes.
func (q *queue) state() (closed bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.closed, q.progress
}

// healthy returns why nothing can be written at the moment.
func (q *queue) healthy() error {
	q.mu.Lock()
	defer q.mu.Unlock()

	if err := q.writable(); err != nil {
		return err
	}

	if !q.started.IsZero() {
		if took := time.Since(q.started); took > stuckAfter {
			return fmt.Errorf("the disk has not finished a write since %s", took.Round(time.Second))
		}
	}

	return nil
}

// length returns how many writes and bytes wait.
func (q *queue) length() (ops int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.ops.len(), q.bytes
}
