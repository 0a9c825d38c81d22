package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// boltStore is the engine on one file: COSI's state in memory, and a queue of writes that a committer makes durable.
type boltStore struct {
	st        state.State
	journal   *journal
	queue     *queue
	committer *committer
	metrics   *storeMetrics
	db        *bbolt.DB
	dir       *dataDir
	id        string
}

// openBolt opens the store file of a locked data directory.
func openBolt(ctx context.Context, dir *dataDir, stored string, o *Options) (Store, error) {
	db, id, err := openFile(dir, stored, o.ID)
	if err != nil {
		return nil, err
	}

	s, err := newBolt(ctx, dir, db, id, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}

	// Last of all: an id without a store means that the store was lost.
	if stored == "" {
		if err := dir.writeID(id); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}

	return s, nil
}

func newBolt(ctx context.Context, dir *dataDir, db *bbolt.DB, id string, o *Options) (*boltStore, error) {
	s := &boltStore{queue: newQueue(), db: db, dir: dir, id: id}
	s.journal = newJournal(boltJournalLimits(), &boltJournal{queue: s.queue, db: db})

	loaded, err := load(db, s.journal)
	if err != nil {
		return nil, fmt.Errorf("error loading %s: %w", dir.file(storeName), err)
	}

	if s.metrics, err = newStoreMetrics(o.Registry, s.queue); err != nil {
		return nil, err
	}

	s.committer = &committer{
		queue: s.queue, write: s.write, committed: s.committed,
		logger: o.Logger, seconds: s.metrics.seconds, ended: make(chan struct{}),
	}

	if s.st, err = buildState(ctx, s.queue, loaded); err != nil {
		s.metrics.unregister()

		return nil, err
	}

	go s.committer.run()

	objects := 0
	for _, l := range loaded {
		objects += len(l)
	}

	o.Logger.Info("the store is open", zap.String("file", dir.file(storeName)), zap.String("gateway", id), zap.Int("objects", objects))

	return s, nil
}

// buildState makes the state and fills all namespaces at once, so that no first reader waits for it.
func buildState(ctx context.Context, q *queue, loaded map[resource.Namespace][]resource.Resource) (state.State, error) {
	memory := inmem.NewStateWithOptions(historyOptions()...)

	st := state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState {
		// Definitions of namespaces and kinds are registered anew at each start.
		if ns == meta.NamespaceName {
			return memory(ns)
		}

		return inmem.NewStateWithOptions(historyOptions(inmem.WithBackingStore(&backing{queue: q, ns: ns, loaded: loaded[ns]}))...)(ns)
	}))

	for _, ns := range slices.Sorted(maps.Keys(loaded)) {
		if _, err := st.List(ctx, resource.NewMetadata(ns, meta.NamespaceType, "", resource.VersionUndefined)); err != nil {
			return nil, fmt.Errorf("error filling the state: %w", err)
		}
	}

	return st, nil
}

// State implements Store.
func (s *boltStore) State() state.State { return s.st }

// Barrier implements Store.
func (s *boltStore) Barrier(ctx context.Context) error { return s.queue.barrier(ctx) }

// Journal implements Store.
func (s *boltStore) Journal() Journal { return s.journal }

// Healthy implements Store.
func (s *boltStore) Healthy() error { return s.queue.healthy() }

// GatewayID implements Store.
func (s *boltStore) GatewayID() string { return s.id }

// Close implements Store.
func (s *boltStore) Close() error {
	if closed, _ := s.queue.state(); closed {
		return nil
	}

	return errors.Join(s.stop(), s.dir.close())
}

// stop writes what is queued and closes the file.
func (s *boltStore) stop() error {
	s.queue.close()
	<-s.committer.ended
	s.metrics.unregister()

	err := s.committer.err
	if closeErr := s.db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("error closing %s: %w", s.dir.file(storeName), closeErr))
	}

	return err
}

// committed tells the journal which of its entries are on the disk.
func (s *boltStore) committed(batch []op) {
	var numbers []uint64

	for i := range batch {
		if batch[i].entry != 0 {
			numbers = append(numbers, batch[i].entry)
		}
	}

	if len(numbers) > 0 {
		s.journal.committed(numbers)
	}
}

// write makes a batch durable in one transaction. Of several writes to one key only the last is made: a storm of events on
// one object costs one write a batch.
func (s *boltStore) write(batch []op) (err error) {
	defer damage(&err)()

	type place struct{ bucket, key string }

	last := make(map[place]int, len(batch))
	for i := range batch {
		last[place{string(batch[i].bucket), string(batch[i].key)}] = i
	}

	return s.db.Update(func(tx *bbolt.Tx) error {
		// Numbers only rise, so that the pages of the journal are never written into again.
		tx.Bucket(bucketJournal).FillPercent = 0.95
		tx.Bucket(bucketKeys).FillPercent = 0.95

		for i := range batch {
			o := &batch[i]
			if last[place{string(o.bucket), string(o.key)}] != i {
				continue
			}

			if err := o.apply(tx.Bucket(o.bucket)); err != nil {
				return err
			}
		}

		return nil
	})
}

func (o *op) apply(b *bbolt.Bucket) error {
	if o.value == nil {
		return b.Delete(o.key)
	}

	return b.Put(o.key, o.value)
}
