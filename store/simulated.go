package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// errTorn is what a process that was killed would have seen.
var errTorn = errors.New("the process that had this store was killed")

// SimulatedDisk is a disk in memory, for simulations under virtual time: a store on it is the bolt engine's queue, committer,
// barrier and journal with this in the place of the file. What one store committed is what the next one finds.
type SimulatedDisk struct {
	// Commit, where not nil, is called before each transaction with the number of its writes. It may take its time; an error
	// makes the transaction fail. It is set before the first store is opened.
	Commit func(writes int) error

	mu      sync.Mutex // guards buckets, and applied and torn of all stores on it
	buckets map[string]memoryBucket
}

// memoryBucket is a bolt bucket in memory.
type memoryBucket map[string][]byte

// ForEach visits all keys in their order.
func (b memoryBucket) ForEach(visit func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if err := visit([]byte(key), b[key]); err != nil {
			return err
		}
	}

	return nil
}

// NewSimulatedDisk returns an empty disk.
func NewSimulatedDisk() *SimulatedDisk {
	d := &SimulatedDisk{buckets: map[string]memoryBucket{}}
	for _, name := range [][]byte{bucketResources, bucketJournal, bucketKeys} {
		d.buckets[string(name)] = memoryBucket{}
	}

	return d
}

// SimulatedStore is a store on a SimulatedDisk.
type SimulatedStore struct {
	st        state.State
	journal   *journal
	queue     *queue
	committer *committer
	disk      *SimulatedDisk
	id        string

	applied uint64 // writes that are on the disk
	torn    bool
}

var _ Store = (*SimulatedStore)(nil)

// Open opens a store of the gateway with this id on the disk. One store is open at a time.
func (d *SimulatedDisk) Open(ctx context.Context, id string) (*SimulatedStore, error) {
	s := &SimulatedStore{queue: newQueue(), disk: d, id: id}
	s.journal = newJournal(boltJournalLimits(), &simulatedJournal{s})

	d.mu.Lock()
	loaded, err := loadResources(d.buckets[string(bucketResources)])
	err = errors.Join(err, loadJournal(d.buckets[string(bucketJournal)], d.buckets[string(bucketKeys)], s.journal))
	d.mu.Unlock()

	if err != nil {
		return nil, fmt.Errorf("error loading the simulated disk: %w", err)
	}

	if s.st, err = buildState(ctx, s.queue, loaded); err != nil {
		return nil, err
	}

	s.committer = &committer{
		queue: s.queue, write: s.write, logger: zap.NewNop(), ended: make(chan struct{}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"}),
	}

	go s.committer.run()

	return s, nil
}

// State implements Store.
func (s *SimulatedStore) State() state.State { return s.st }

// Barrier implements Store.
func (s *SimulatedStore) Barrier(ctx context.Context) error { return s.queue.barrier(ctx) }

// Journal implements Store.
func (s *SimulatedStore) Journal() Journal { return s.journal }

// Healthy implements Store.
func (s *SimulatedStore) Healthy() error { return s.queue.healthy() }

// GatewayID implements Store.
func (s *SimulatedStore) GatewayID() string { return s.id }

// Close implements Store.
func (s *SimulatedStore) Close() error {
	s.queue.close()
	<-s.committer.ended

	return s.committer.err
}

// Tear is the death of the process: from now on nothing of this store comes to the disk but the oldest of the writes that
// were queued, as many as choose says of their number. Each prefix is one that a disk may have got to by then.
func (s *SimulatedStore) Tear(choose func(queued int) int) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()

	if s.torn {
		return
	}

	s.torn = true

	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()

	// A batch that is on the disk, but not yet off the queue, is not among those to choose from.
	rest := s.queue.ops.firstN(s.queue.ops.len())[s.applied-s.queue.committed:]
	s.disk.apply(rest[:whole(rest, choose(len(rest)))])
}

// write is the committer's.
func (s *SimulatedStore) write(batch []op) error {
	if s.disk.Commit != nil {
		if err := s.disk.Commit(len(batch)); err != nil {
			return err
		}
	}

	if err := s.keep(batch); err != nil {
		return err
	}

	var numbers []uint64

	for i := range batch {
		if batch[i].entry != 0 {
			numbers = append(numbers, batch[i].entry)
		}
	}

	s.journal.committed(numbers)

	return nil
}

// keep brings a batch to the disk, unless the process is dead.
func (s *SimulatedStore) keep(batch []op) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()

	if s.torn {
		return errTorn
	}

	s.disk.apply(batch)
	s.applied += uint64(len(batch))

	return nil
}

// apply makes writes, in their order. d.mu is held.
func (d *SimulatedDisk) apply(ops []op) {
	for i := range ops {
		o := &ops[i]
		if o.value == nil {
			delete(d.buckets[string(o.bucket)], string(o.key))
		} else {
			d.buckets[string(o.bucket)][string(o.key)] = bytes.Clone(o.value)
		}
	}
}

// simulatedJournal implements journalDisk.
type simulatedJournal struct{ store *SimulatedStore }

func (j *simulatedJournal) push(ops ...op) error { return j.store.queue.push(ops...) }

func (j *simulatedJournal) scan(ctx context.Context, before uint64, visit func(number uint64, encoded []byte) (bool, error)) error {
	d := j.store.disk

	d.mu.Lock()
	entries := maps.Clone(d.buckets[string(bucketJournal)])
	d.mu.Unlock()

	for _, key := range slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return strings.Compare(b, a) }) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if before > 0 && numberOf([]byte(key)) >= before {
			continue
		}

		if again, err := visit(numberOf([]byte(key)), entries[key]); err != nil || !again {
			return err
		}
	}

	return nil
}
