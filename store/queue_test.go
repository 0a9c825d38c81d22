package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/resources"
)

// disk is what a committer writes to in these tests.
type disk struct {
	mu      sync.Mutex
	err     error
	batches []int
	keys    []string
	// gate, where it is not nil, holds every write until it is closed.
	gate chan struct{}
}

func (d *disk) write(batch []op) error {
	if d.gate != nil {
		<-d.gate
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.err != nil {
		return d.err
	}

	d.batches = append(d.batches, len(batch))
	for i := range batch {
		d.keys = append(d.keys, string(batch[i].key))
	}

	return nil
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.err = err
}

// startCommitter runs a committer over a new queue until the returned function is called.
func startCommitter(d *disk) (q *queue, stop func() error) {
	q = newQueue()
	c := &committer{
		queue: q, write: d.write, logger: zap.NewNop(),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"}), ended: make(chan struct{}),
	}

	go c.run()

	return q, func() error {
		q.close()
		<-c.ended

		return c.err
	}
}

func write(key string) op {
	return op{bucket: bucketResources, key: []byte(key), value: []byte("value")}
}

func TestAFailedCommitIsTriedAgainAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errors.New("no space left on device")}
		q, stop := startCommitter(d)

		require.NoError(t, q.put(t.Context(), write("a")))
		require.NoError(t, q.put(t.Context(), write("b")))
		synctest.Wait()

		require.ErrorContains(t, q.put(t.Context(), write("c")), "the store can't be written: no space left on device")
		require.ErrorContains(t, q.push(write("d")), "no space left")
		require.ErrorContains(t, q.healthy(), "no space left")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		err := q.barrier(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no space left", "who waits is told why")

		d.fail(nil)
		require.NoError(t, q.barrier(t.Context()))
		require.NoError(t, q.healthy())
		require.NoError(t, q.put(t.Context(), write("c")))
		require.NoError(t, stop())
		require.Equal(t, []string{"a", "b", "c"}, d.keys)
	})
}

func TestClosingWritesWhatIsQueuedAndSaysWhatItCouldNotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		q, stop := startCommitter(d)

		for i := range 20_000 {
			require.NoError(t, q.put(t.Context(), write(fmt.Sprint(i))))
		}

		require.NoError(t, stop())
		require.Len(t, d.keys, 20_000)
		require.LessOrEqual(t, d.batches[0], maxBatchOps)
		require.ErrorIs(t, q.put(t.Context(), write("late")), ErrClosed)
		require.ErrorIs(t, q.healthy(), ErrClosed)

		broken := &disk{err: errors.New("input/output error")}
		q, stop = startCommitter(broken)

		require.NoError(t, q.put(t.Context(), write("a")))
		require.ErrorContains(t, stop(), "error writing the last 1 changes")
		require.ErrorIs(t, q.barrier(t.Context()), ErrClosed)
	})
}

func TestOneFsyncServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q, stop := startCommitter(d)

		require.NoError(t, q.put(t.Context(), write("first")))
		synctest.Wait() // the committer holds the first batch

		var waiting sync.WaitGroup

		for i := range 100 {
			waiting.Go(func() {
				if err := q.put(t.Context(), write(fmt.Sprint(i))); err == nil {
					err = q.barrier(t.Context())
					if err != nil {
						t.Error(err)
					}
				}
			})
		}

		synctest.Wait()
		close(d.gate)
		waiting.Wait()
		require.Equal(t, []int{1, 100}, d.batches)
		require.NoError(t, stop())
	})
}

func TestAFullQueueHoldsWritersUpAndRefusesTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q, stop := startCommitter(d)

		large := op{bucket: bucketResources, key: []byte("large"), value: make([]byte, 15<<20)}
		for range 5 {
			require.NoError(t, q.put(t.Context(), large))
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, q.put(ctx, large), context.DeadlineExceeded)

		for range 4 {
			require.NoError(t, q.push(large), "the journal does not wait")
		}

		require.ErrorContains(t, q.push(large), "wait to be written")

		late := make(chan error, 1)
		go func() { late <- q.put(t.Context(), large) }()

		synctest.Wait()
		require.Empty(t, late)
		close(d.gate)
		require.NoError(t, <-late)
		require.NoError(t, stop())
	})
}

func TestAWriteThatNoTransactionTakesIsRefusedAtOnce(t *testing.T) {
	q := newQueue()
	require.ErrorContains(t, q.put(t.Context(), op{key: []byte("k"), value: make([]byte, maxRecordBytes+1)}), "at most")
	require.ErrorContains(t, q.put(t.Context(), op{key: []byte(strings.Repeat("k", maxKeyBytes+1))}), "at most")
}

func TestADiskThatDoesNotAnswerIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		q, stop := startCommitter(d)

		require.NoError(t, q.put(t.Context(), write("a")))
		synctest.Wait()
		require.NoError(t, q.healthy())
		time.Sleep(2 * stuckAfter) // virtual time
		require.ErrorContains(t, q.healthy(), "has not finished a write")
		close(d.gate)
		require.NoError(t, stop())
	})
}

// TestEveryPrefixOfTheQueueIsClosedUnderCauses: whoever writes because of what it read must find its write behind what it
// read, in all namespaces and in the journal.
func TestEveryPrefixOfTheQueueIsClosedUnderCauses(t *testing.T) {
	const objects = 300

	q := newQueue() // nothing takes from it, so that it shows the order
	j := newJournal(boltJournalLimits(), &boltJournal{queue: q})

	st, err := buildState(t.Context(), q, nil)
	require.NoError(t, err)

	name := func(i int) string { return fmt.Sprintf("o-%d", i) }

	// A VM leads to a network, the network to a host, the host to a journal entry.
	steps := []func(i int) resource.Resource{
		func(i int) resource.Resource { return resources.NewVMConfig(name(i)) },
		func(i int) resource.Resource { return resources.NewNetwork(name(i)) },
		func(i int) resource.Resource { return resources.NewHost(name(i)) },
	}

	var done sync.WaitGroup

	for i := range objects {
		for n, step := range steps {
			done.Go(func() {
				if n > 0 {
					awaitObject(t, st, steps[n-1](i))
				}

				if err := st.Create(t.Context(), step(i)); err != nil {
					t.Error(err)
				}
			})
		}

		done.Go(func() {
			awaitObject(t, st, steps[2](i))

			if err := j.Append(Entry{Source: "vm", Object: name(i)}); err != nil {
				t.Error(err)
			}
		})
	}

	done.Wait()

	seen := map[string]bool{}

	for _, o := range q.ops.firstN(q.ops.len()) {
		if o.entry != 0 {
			e, err := decodeEntry(o.entry, o.value)
			require.NoError(t, err)
			require.True(t, seen[string(resourceKey(resources.NamespaceHosts, resources.HostType, e.Object))])

			continue
		}

		seen[string(o.key)] = true
		parts := strings.Split(string(o.key), "\x00")

		switch parts[1] {
		case resources.NetworkType:
			require.True(t, seen[string(resourceKey(resources.NamespaceVMs, resources.VMConfigType, parts[2]))])
		case resources.HostType:
			require.True(t, seen[string(resourceKey(resources.NamespaceNetworks, resources.NetworkType, parts[2]))])
		}
	}

	require.Len(t, seen, objects*len(steps))
}

// awaitObject returns when the object can be read.
func awaitObject(t *testing.T, st state.State, r resource.Resource) {
	if _, err := st.WatchFor(t.Context(), r.Metadata(), state.WithEventTypes(state.Created)); err != nil {
		t.Error(err)
	}
}

func TestWhatIsJoinedIsNotParted(t *testing.T) {
	q := newQueue()

	for n := range 3 {
		entry := entryOp(uint64(n+1), []byte("entry"))
		entry.joined = true
		require.NoError(t, q.push(entry, op{bucket: bucketKeys, key: numberKey(uint64(n + 1)), value: []byte("key")}))
	}

	require.Len(t, q.take(1, maxBatchBytes), 2, "whatever the bound of writes")
	require.Len(t, q.take(2, maxBatchBytes), 2)
	require.Len(t, q.take(3, maxBatchBytes), 4)
	require.Len(t, q.take(maxBatchOps, 1), 2, "whatever the bound of bytes")
	require.Len(t, q.take(maxBatchOps, maxBatchBytes), 6)
}
