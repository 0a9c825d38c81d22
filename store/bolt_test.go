package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/stretchr/testify/suite"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"gateway/resources"
	"gateway/store"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirVariable); dir != "" {
		writeUntilKilled(dir)
	}

	if err := protobuf.RegisterResource(conformance.PathResourceType, &conformance.PathResource{}); err != nil {
		panic(err)
	}

	goleak.VerifyTestMain(m)
}

// open opens a bolt store that is closed at the end of the test.
func open(t *testing.T, dir string) store.Store {
	t.Helper()

	s, err := store.Open(t.Context(), store.Options{DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return s
}

func TestEveryEnginePassesCOSIsConformanceSuite(t *testing.T) {
	t.Parallel() // the suite waits for seconds

	for name, s := range map[string]store.Store{
		"memory": store.NewMemory("test"),
		"bolt":   open(t, t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Run(t, &conformance.StateSuite{State: s.State(), Namespaces: []resource.Namespace{"default", "controller", "system"}})
		})
	}
}

func TestWhatTheBarrierConfirmedIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)

	for i := range 50 {
		require.NoError(t, s.State().Create(t.Context(), vm(fmt.Sprintf("vm-%d", i))))
	}

	network := resources.NewNetwork("lan")
	require.NoError(t, s.State().Create(t.Context(), network))
	require.NoError(t, s.State().Destroy(t.Context(), vm("vm-0").Metadata()))
	require.NoError(t, s.Barrier(t.Context()))
	require.NoError(t, s.Close())

	s = open(t, dir)

	list, err := s.State().List(t.Context(), vm("").Metadata())
	require.NoError(t, err)
	require.Len(t, list.Items, 49)

	got, err := s.State().Get(t.Context(), network.Metadata())
	require.NoError(t, err)
	require.True(t, network.Metadata().Created().Equal(got.Metadata().Created()))
	require.Equal(t, network.Metadata().Version(), got.Metadata().Version())
}

func TestTheDataDirectoryIsHeldByOneGateway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)

	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	require.ErrorContains(t, err, fmt.Sprintf("data directory %s is in use by gateway pid %d since ", dir, os.Getpid()))

	_, err = store.Open(t.Context(), store.Options{DataDir: dir, Engine: store.EngineMemory})
	require.ErrorContains(t, err, "is in use by")

	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing again is success")
	open(t, dir)
}

func TestADirectoryOfSomebodyElseIsNotClosedToOthers(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600))

	_, err := store.Open(t.Context(), store.Options{DataDir: dir})
	require.ErrorContains(t, err, "chmod 700")

	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

func TestTheGatewaysIDIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := s.GatewayID()
	require.Len(t, id, 36)
	require.NoError(t, s.Close())

	s = open(t, dir)
	require.Equal(t, id, s.GatewayID())
	require.NoError(t, s.Close())

	_, err := store.Open(t.Context(), store.Options{DataDir: dir, ID: "other"})
	require.ErrorContains(t, err, id)
	require.ErrorContains(t, err, "take `id` out of the configuration")

	_, err = store.Open(t.Context(), store.Options{DataDir: t.TempDir(), ID: "No Name"})
	require.ErrorContains(t, err, "configured id")

	named := t.TempDir()
	s, err = store.Open(t.Context(), store.Options{DataDir: named, ID: "home"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, "home", open(t, named).GatewayID())
}

func TestAStoreThatCanNotBeReadIsNeverOpenedAsAnEmptyOne(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		says   string
	}{
		"the file is missing": {
			func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "store.db"))) },
			"to begin anew",
		},
		"the file is empty": {
			func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, "store.db"), 0)) },
			"is damaged",
		},
		"the file is cut off": {
			func(t *testing.T, dir string) { require.NoError(t, os.Truncate(filepath.Join(dir, "store.db"), 8192)) },
			"is damaged",
		},
		"the file is something else": {
			func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "store.db"), make([]byte, 1<<16), 0o600))
			},
			"is damaged",
		},
		"pages are overwritten": {
			func(t *testing.T, dir string) {
				f, err := os.OpenFile(filepath.Join(dir, "store.db"), os.O_WRONLY, 0)
				require.NoError(t, err)

				noise := make([]byte, 64<<10)
				for i := range noise {
					noise[i] = byte(i * 7)
				}

				_, err = f.WriteAt(noise, 8192)
				require.NoError(t, err)
				require.NoError(t, f.Close())
			},
			"is damaged",
		},
		"another gateway's file lies there": {
			func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "id"), []byte("other\n"), 0o600))
			},
			"belongs to gateway",
		},
		"the format is newer": {
			func(t *testing.T, dir string) { edit(t, dir, "meta", "version", "3") },
			"start the newer gateway",
		},
		"there are unknown kinds": {
			func(t *testing.T, dir string) { renameKind(t, dir) },
			"Workflows.gateway.dev (1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()

			s := open(t, dir)
			for i := range 200 {
				require.NoError(t, s.State().Create(t.Context(), vm(fmt.Sprintf("vm-%d", i))))
			}

			require.NoError(t, s.Close())
			test.damage(t, dir)

			_, err := store.Open(t.Context(), store.Options{DataDir: dir})
			require.ErrorContains(t, err, test.says)
		})
	}
}

// edit changes one value of a closed store file.
func edit(t *testing.T, dir, bucket, key, value string) {
	t.Helper()

	db, err := bbolt.Open(filepath.Join(dir, "store.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value))
	}))
	require.NoError(t, db.Close())
}

// renameKind writes an object of a kind that nobody registered.
func renameKind(t *testing.T, dir string) {
	t.Helper()

	md := resource.NewMetadata("vms", "Workflows.gateway.dev", "w", resource.VersionUndefined)
	proto, err := protobuf.FromResource(resource.NewTombstone(md), protobuf.WithoutYAML())
	require.NoError(t, err)

	message, err := proto.Marshal()
	require.NoError(t, err)

	value, err := protobuf.ProtoMarshal(message)
	require.NoError(t, err)
	edit(t, dir, "resources", "vms\x00Workflows.gateway.dev\x00w", string(value))
}

func TestAStoreWithoutItsIDFileGoesOnAsItself(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	id := s.GatewayID()
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "id")))

	s = open(t, dir)
	require.Equal(t, id, s.GatewayID())
	require.FileExists(t, filepath.Join(dir, "id"))
}

func TestTheJournalSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)

	for i := range 10 {
		require.NoError(t, s.Journal().Append(store.Entry{
			Class: store.ClassEvent, Source: "webhook", Name: "deploy", EventID: fmt.Sprintf("e%d", i), Key: fmt.Sprintf("k%d", i),
			Attributes: []byte(`{"a":1}`), Data: []byte("payload"),
		}))
	}

	s.Journal().Forget("webhook", "deploy", "k3")
	require.NoError(t, s.Close())

	s = open(t, dir)

	id, ok := s.Journal().Seen("webhook", "deploy", "k7")
	require.True(t, ok)
	require.Equal(t, "e7", id)

	_, ok = s.Journal().Seen("webhook", "deploy", "k3")
	require.False(t, ok)

	require.NoError(t, s.Journal().Append(store.Entry{Class: store.ClassEvent, Source: "webhook", Name: "deploy", EventID: "later"}))

	entries, err := s.Journal().Query(t.Context(), store.Query{Source: "webhook", Limit: 3})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, []string{"e8", "e9", "later"}, []string{entries[0].EventID, entries[1].EventID, entries[2].EventID})
	require.Equal(t, []uint64{9, 10, 11}, []uint64{entries[0].Number, entries[1].Number, entries[2].Number})
	require.Equal(t, "payload", string(entries[0].Data))
	require.Equal(t, `{"a":1}`, string(entries[0].Attributes))
}

func TestQueriesReachFarBackOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)

	// More than one transaction of a query reads.
	for i := range 10_000 {
		require.NoError(t, s.Journal().Append(store.Entry{Class: store.ClassEvent, Source: "webhook", EventID: fmt.Sprintf("e%d", i)}))
	}

	require.NoError(t, s.Barrier(t.Context()))
	require.NoError(t, s.Close())
	s = open(t, dir) // what the log had is on the disk now

	entries, err := s.Journal().Query(t.Context(), store.Query{EventID: "e5"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, uint64(6), entries[0].Number)

	entries, err = s.Journal().Query(t.Context(), store.Query{Limit: 9_000})
	require.NoError(t, err)
	require.Len(t, entries, 9_000)

	for i := range entries {
		require.Equal(t, uint64(1001+i), entries[i].Number)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = s.Journal().Query(ctx, store.Query{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheStoresMetricsAreRegisteredWhileItIsOpen(t *testing.T) {
	registry, dir := prometheus.NewRegistry(), t.TempDir()

	for range 2 {
		s, err := store.Open(t.Context(), store.Options{DataDir: dir, Registry: registry})
		require.NoError(t, err)

		require.NoError(t, s.State().Create(t.Context(), vm("vm-"+fmt.Sprint(time.Now().UnixNano()))))
		require.NoError(t, s.Barrier(t.Context()))

		families, err := registry.Gather()
		require.NoError(t, err)

		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
		}

		require.Equal(t, []string{"gateway_store_checkpoint_seconds", "gateway_store_commit_seconds", "gateway_store_log_bytes", "gateway_store_queue_bytes", "gateway_store_queue_length"}, names)
		require.NoError(t, s.Close())
	}
}

func TestOptionsThatCanNotBeAreRefused(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{Engine: "etcd"})
	require.ErrorContains(t, err, "use bolt or memory")

	_, err = store.Open(t.Context(), store.Options{})
	require.ErrorContains(t, err, "needs a data directory")

	s, err := store.Open(t.Context(), store.Options{Engine: store.EngineMemory})
	require.NoError(t, err)
	require.NotEmpty(t, s.GatewayID())
	require.NoError(t, s.Healthy())
	require.NoError(t, s.Barrier(t.Context()))
	require.NoError(t, s.Close())
}
