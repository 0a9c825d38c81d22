package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// When the log is brought into the store file. A transaction for 8 MiB takes a tenth of a second on a slow disk and leaves out all that was
// written and taken away again in between; ten seconds of an idle gateway are replayed in no time. At maxLogBytes writers wait for the
// store file: that much is read and written once more after a crash, in under two seconds.
const (
	checkpointBytes = 8 << 20
	checkpointAfter = 10 * time.Second
	maxLogBytes     = 64 << 20
)

// writeAhead is the store's write-ahead log: each batch is one record with one fsync, and the store file follows in large
// transactions. What it confirmed is in the file, or in the log that the next start brings into it.
type writeAhead struct {
	db     *bbolt.DB
	logger *zap.Logger
	// checkpointed is told which journal entries the store file has.
	checkpointed func(entries []uint64)
	seconds      prometheus.Observer
	bytes        prometheus.Gauge

	mu sync.Mutex // guards the following, and is held while a record is written
	// active takes records; spare is the other file, unless sealed, whose writes are on their way into the store file.
	active, spare *logFile
	pending       *changes // what active holds
	sealed        *changes
	// failure is why the store file could not be written last.
	failure error
	// room is signalled when a checkpoint has ended, with or without success.
	room *sync.Cond

	// work serialises checkpoints.
	work    sync.Mutex
	kick    chan struct{}
	closing chan struct{}
	ended   chan struct{}
}

// changes are the writes of a generation: of several to one key, the last.
type changes struct {
	values  map[string][]byte // bucket's place, then key; nil: deletion
	entries []uint64
	began   time.Time
}

func newChanges() *changes { return &changes{values: map[string][]byte{}} }

func (c *changes) add(o *op) {
	key := make([]byte, 0, 1+len(o.key))
	key = append(append(key, byte(placeOf(o.bucket))), o.key...)
	c.values[string(key)] = o.value

	if o.entry != 0 {
		c.entries = append(c.entries, o.entry)
	}

	if c.began.IsZero() {
		c.began = time.Now()
	}
}

// each visits the writes in the order of the keys.
func (c *changes) each(visit func(o *op) error) error {
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if err := visit(&op{bucket: loggedBuckets[key[0]], key: []byte(key[1:]), value: c.values[key]}); err != nil {
			return err
		}
	}

	return nil
}

// apply makes the changes in a transaction, and notes the generation.
func (c *changes) apply(tx *bbolt.Tx, generation uint64) error {
	// Numbers only rise, so that the pages of the journal are never written into again.
	tx.Bucket(bucketJournal).FillPercent = 0.95
	tx.Bucket(bucketKeys).FillPercent = 0.95

	if err := c.each(func(o *op) error { return o.apply(tx.Bucket(o.bucket)) }); err != nil {
		return err
	}

	return tx.Bucket(bucketMeta).Put(metaLog, strconv.AppendUint(nil, generation, 10))
}

// newWriteAhead begins a generation on the open files of the log, after recover.
func newWriteAhead(db *bbolt.DB, active, spare *logFile, logger *zap.Logger, metrics *storeMetrics, checkpointed func([]uint64)) *writeAhead {
	w := &writeAhead{
		db: db, logger: logger, checkpointed: checkpointed, seconds: metrics.checkpoints, bytes: metrics.logBytes, active: active, spare: spare, pending: newChanges(),
		kick: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	w.room = sync.NewCond(&w.mu)

	go w.run()

	return w
}

// write makes a batch durable, wholly or not at all. Only the committer calls it.
func (w *writeAhead) write(batch []op) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	for w.active.end >= maxLogBytes {
		if w.failure != nil {
			return w.failure
		}

		w.room.Wait()
	}

	if err := w.active.append(func(b []byte) []byte { return appendOps(b, batch) }); err != nil {
		return err
	}

	w.bytes.Set(float64(w.active.end))

	idle := w.pending.began.IsZero()
	for i := range batch {
		w.pending.add(&batch[i])
	}

	if idle || w.active.end >= checkpointBytes {
		w.wake()
	}

	return nil
}

func (w *writeAhead) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run makes checkpoints until the log is closed. One that fails is made again, as the committer's attempts are; the log tells of
// the first failure and of the end of it.
func (w *writeAhead) run() {
	defer close(w.ended)

	for delay := firstRetry; ; {
		var (
			wait <-chan time.Time
			kick = w.kick
		)

		switch due, err := w.due(); {
		case err != nil:
			wait, kick = time.After(delay), nil // what is written meanwhile does not put the next attempt off
			delay = min(2*delay, lastRetry)
		case due == 0:
			if w.reported(delay > firstRetry) {
				delay = firstRetry
			}

			continue
		case due > 0:
			wait = time.After(due)
		}

		select {
		case <-kick:
		case <-wait:
			w.retry()
		case <-w.closing:
			return
		}
	}
}

// reported makes a checkpoint, logs when it is the first that fails or that succeeds, and reports whether it succeeded. failing says
// whether the last one failed.
func (w *writeAhead) reported(failing bool) bool {
	err := w.checkpointIfDue()

	switch {
	case err != nil && !failing:
		w.logger.Error("the store file can't be written; changes stay in the log", zap.Error(err))
	case err == nil && failing:
		w.logger.Info("the store file can be written again")
	}

	return err == nil
}

// due says when the next checkpoint is: 0 for now, less than 0 for not before something is written. It returns the failure of the
// last one, after which there is a pause.
func (w *writeAhead) due() (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	switch {
	case w.failure != nil:
		return 0, w.failure
	case w.pending.began.IsZero() && w.sealed == nil:
		return -1, nil
	case w.active.end >= checkpointBytes || w.sealed != nil:
		return 0, nil
	}

	return max(time.Until(w.pending.began.Add(checkpointAfter)), 0), nil
}

// retry ends the pause after a failure.
func (w *writeAhead) retry() {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.failure = nil
}

// checkpoint brings everything that is in the log into the store file.
func (w *writeAhead) checkpoint() error {
	w.work.Lock()
	defer w.work.Unlock()

	return w.bring()
}

// checkpointIfDue is checkpoint, unless somebody else just made one.
func (w *writeAhead) checkpointIfDue() error {
	w.work.Lock()
	defer w.work.Unlock()

	if due, err := w.due(); due != 0 || err != nil {
		return err
	}

	return w.bring()
}

// bring makes a checkpoint. w.work is held.
func (w *writeAhead) bring() error {
	start := time.Now()

	generation, err := w.rotate()
	if err == nil {
		err = w.transfer(generation)
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.failure = err
	w.room.Broadcast()

	if err == nil {
		w.seconds.Observe(time.Since(start).Seconds())
	}

	return err
}

// flush brings everything that was written before the call into the store file.
func (w *writeAhead) flush(ctx context.Context) error {
	w.mu.Lock()
	before := w.active.generation
	w.mu.Unlock()

	// One checkpoint may only end what another one began.
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}

		if err := w.checkpoint(); err != nil {
			return err
		}

		w.mu.Lock()
		done = w.active.generation > before && w.sealed == nil
		w.mu.Unlock()
	}

	return nil
}

// rotate lets the other file take the records from now on, unless one is still on its way, and returns the generation that is to
// be brought over.
func (w *writeAhead) rotate() (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.sealed != nil {
		return w.spare.generation, nil
	}

	if err := w.spare.begin(w.active.generation+1, w.active.records); err != nil {
		return 0, fmt.Errorf("error beginning %s anew: %w", w.spare.f.Name(), err)
	}

	w.active, w.spare = w.spare, w.active
	w.sealed, w.pending = w.pending, newChanges()
	w.bytes.Set(float64(w.active.end))

	return w.spare.generation, nil
}

// transfer writes what is sealed, in one transaction.
func (w *writeAhead) transfer(generation uint64) (err error) {
	defer damage(&err)()

	w.mu.Lock()
	sealed := w.sealed
	w.mu.Unlock()

	if err := w.db.Update(func(tx *bbolt.Tx) error { return sealed.apply(tx, generation) }); err != nil {
		return fmt.Errorf("error writing %s: %w", w.db.Path(), err)
	}

	w.mu.Lock()
	w.sealed = nil
	w.mu.Unlock()

	w.checkpointed(sealed.entries)

	return nil
}

// close brings over what the log holds, and closes its files. What can't be brought over stays in the log for the next start.
func (w *writeAhead) close() error {
	close(w.closing)
	<-w.ended

	for range closingRetries {
		err := w.checkpoint()
		if err == nil {
			break
		}

		w.logger.Warn("the store file can't be written; the next start takes the changes from the log", zap.Error(err))
	}

	return errors.Join(w.active.f.Close(), w.spare.f.Close())
}

// openLogs opens both files of the log, which makeFile made.
func openLogs(dir *dataDir) (files [2]*logFile, err error) {
	for i := range files {
		f, openErr := os.OpenFile(dir.file(logNames[i]), os.O_RDWR, fileMode)
		if openErr != nil {
			for _, l := range files[:i] {
				openErr = errors.Join(openErr, l.f.Close())
			}

			return files, openErr
		}

		files[i] = &logFile{f: f}
	}

	return files, nil
}
