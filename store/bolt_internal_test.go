package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// TestACopyOfTheFilesHoldsWhatTheBarrierHadConfirmed copies the files between records, at random and also in the middle of a
// checkpoint, as a power loss would leave them, while writers in two namespaces go on.
func TestACopyOfTheFilesHoldsWhatTheBarrierHadConfirmed(t *testing.T) {
	const (
		writers = 8
		objects = 100
	)

	s := openInternal(t, t.TempDir())

	var (
		mu        sync.Mutex
		confirmed []string
		copies    = map[string][]string{} // a data directory, and what was confirmed before its copy
		parent    = t.TempDir()
	)

	s.committer.write = func(batch []op) error {
		if rand.IntN(4) == 0 {
			mu.Lock()
			before := append([]string(nil), confirmed...)
			mu.Unlock()

			to := filepath.Join(parent, fmt.Sprint(len(copies)))
			copies[to] = before
			copyAtCheckpoint(t, s, to, rand.IntN(3))
		}

		return s.log.write(batch)
	}

	var done sync.WaitGroup

	for w := range writers {
		done.Go(func() {
			for i := range objects {
				name := fmt.Sprintf("o-%d-%d", w, i)
				if err := writePair(t.Context(), s, name); err != nil {
					t.Error(err)

					return
				}

				mu.Lock()
				confirmed = append(confirmed, name)
				mu.Unlock()
			}
		})
	}

	done.Wait()
	require.NoError(t, s.Close())
	require.NotEmpty(t, copies)

	for path, names := range copies {
		requireHolds(t, path, names)
	}
}

// openInternal opens a store whose committer's writes can still be replaced: nothing was written to it yet.
func openInternal(t *testing.T, path string) *boltStore {
	t.Helper()

	s, err := Open(t.Context(), Options{DataDir: path})
	require.NoError(t, err)

	b, ok := s.(*boltStore)
	require.True(t, ok)

	return b
}

// copyAtCheckpoint copies the files while no checkpoint is under way (0), when one has begun (1), and when one has ended (2).
func copyAtCheckpoint(t *testing.T, s *boltStore, to string, stage int) {
	s.log.work.Lock()
	defer s.log.work.Unlock()

	if stage > 0 {
		generation, err := s.log.rotate()
		if err == nil && stage > 1 {
			err = s.log.transfer(generation)
		}

		if err != nil {
			t.Error(err)
		}
	}

	copyStore(t, s.dir.path, to)
}

// writePair writes a VM and its network and waits for the barrier.
func writePair(ctx context.Context, s *boltStore, name string) error {
	if err := s.st.Create(ctx, resources.NewVMConfig(name)); err != nil {
		return err
	}

	if err := s.st.Create(ctx, resources.NewNetwork(name)); err != nil {
		return err
	}

	return s.Barrier(ctx)
}

// copyStore makes a data directory of a copy of a store.
func copyStore(t *testing.T, from, to string) {
	err := os.Mkdir(to, dirMode)

	for _, name := range []string{storeName, logNames[0], logNames[1], idName} {
		var data []byte
		if err == nil {
			data, err = os.ReadFile(filepath.Join(from, name))
		}

		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, fileMode)
		}
	}

	if err != nil {
		t.Error(err)
	}
}

// requireHolds requires that a store opens, has both objects of each name, and no network without its VM.
func requireHolds(t *testing.T, dir string, names []string) {
	t.Helper()

	s, err := Open(t.Context(), Options{DataDir: dir})
	require.NoError(t, err)

	for _, name := range names {
		for _, r := range []resource.Resource{resources.NewVMConfig(name), resources.NewNetwork(name)} {
			_, err := s.State().Get(t.Context(), r.Metadata())
			require.NoError(t, err)
		}
	}

	networks, err := s.State().List(t.Context(), resources.NewNetwork("").Metadata())
	require.NoError(t, err)

	for _, n := range networks.Items {
		_, err := s.State().Get(t.Context(), resources.NewVMConfig(n.Metadata().ID()).Metadata())
		require.NoError(t, err, "a network was written because of this VM")
	}

	require.NoError(t, s.Close())
}

// BenchmarkDurableWrites compares writers that wait for each of their writes with a bare fsync for each write.
func BenchmarkDurableWrites(b *testing.B) {
	b.Run("64 writers at the barrier", func(b *testing.B) {
		s, err := Open(b.Context(), Options{DataDir: b.TempDir()})
		require.NoError(b, err)

		var next sync.Mutex

		n := 0

		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				next.Lock()
				n++
				name := fmt.Sprintf("vm-%d", n)
				next.Unlock()

				if err := s.State().Create(b.Context(), resources.NewVMConfig(name)); err != nil {
					b.Error(err)
				}

				if err := s.Barrier(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
		b.StopTimer()
		require.NoError(b, s.Close())
	})

	b.Run("a bare write and fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		require.NoError(b, err)

		for b.Loop() {
			_, err := f.Write(make([]byte, 512))
			require.NoError(b, err)
			require.NoError(b, f.Sync())
		}

		require.NoError(b, f.Close())
	})
}
