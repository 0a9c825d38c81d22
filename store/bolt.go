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

// boltStore is the engine on files: COSI's state in memory, a queue of writes that a committer makes durable in a log, and a bolt
// file that follows the log.
type boltStore struct {
	st        state.State
	journal   *journal
	queue     *queue
	committer *committer
	metrics   *storeMetrics
	log       *writeAhead
	db        *bbolt.DB
	dir       *dataDir
	id        string
}

// openBolt opens the store file of a locked data directory.
func openBolt(ctx context.Context, dir *dataDir, stored string, o *Options) (Store, error) {
	db, id, err := openFile(dir, stored, o.ID)
	if err != nil {
		return nil, advised(err, dir)
	}

	s, err := newBolt(ctx, dir, db, id, o)
	if err != nil {
		return nil, errors.Join(advised(err, dir), db.Close())
	}

	// Last of all: an id without a store means that the store was lost.
	if stored == "" {
		if err := dir.writeID(id); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}

	return s, nil
}

// advised adds what to do about damage.
func advised(err error, dir *dataDir) error {
	if !errors.Is(err, errDamaged) {
		return err
	}

	return fmt.Errorf("%w: `gateway store check --data-dir %s` tells more, `gateway store restore` brings a backup back", err, dir.path)
}

func newBolt(ctx context.Context, dir *dataDir, db *bbolt.DB, id string, o *Options) (*boltStore, error) {
	s := &boltStore{queue: newQueue(), db: db, dir: dir, id: id}
	s.journal = newJournal(boltJournalLimits(), &boltJournal{queue: s.queue, db: db})

	active, spare, err := recoverLog(dir, db)
	if err != nil {
		return nil, fmt.Errorf("error bringing the log into %s: %w", dir.file(storeName), err)
	}

	loaded, err := load(db, s.journal)
	if err == nil {
		s.metrics, err = newStoreMetrics(o.Registry, s.queue)
	} else {
		err = fmt.Errorf("error loading %s: %w", dir.file(storeName), err)
	}

	if err != nil {
		return nil, errors.Join(err, active.f.Close(), spare.f.Close())
	}

	if s.st, err = buildState(ctx, s.queue, loaded); err != nil {
		s.metrics.unregister()

		return nil, errors.Join(err, active.f.Close(), spare.f.Close())
	}

	s.log = newWriteAhead(db, active, spare, o.Logger, s.metrics, s.journal.committed)
	s.committer = &committer{
		queue: s.queue, write: s.log.write,
		logger: o.Logger, seconds: s.metrics.seconds, ended: make(chan struct{}),
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

// stop writes what is queued and closes the files.
func (s *boltStore) stop() error {
	s.queue.close()
	<-s.committer.ended
	s.metrics.unregister()

	err := errors.Join(s.committer.err, s.log.close())
	if closeErr := s.db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("error closing %s: %w", s.dir.file(storeName), closeErr))
	}

	return err
}

func (o *op) apply(b *bbolt.Bucket) error {
	if o.value == nil {
		return b.Delete(o.key)
	}

	return b.Put(o.key, o.value)
}
