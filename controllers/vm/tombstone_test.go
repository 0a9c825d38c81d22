package vm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

// refusing is a store whose statuses can't be destroyed for a while.
type refusing struct {
	store.Store

	until time.Time
}

func (r *refusing) State() state.State {
	return state.WrapCore(&refusingState{r.Store.State(), r})
}

type refusingState struct {
	state.CoreState

	store *refusing
}

func (s *refusingState) Destroy(ctx context.Context, ptr resource.Pointer, opts ...state.DestroyOption) error {
	if ptr.Type() == resources.VMStatusType && time.Now().Before(s.store.until) {
		return errors.New("the store can't be written")
	}

	return s.CoreState.Destroy(ctx, ptr, opts...)
}

// The last message of a VM may be sent, and its tombstone be gone, while its status could not be taken away yet: the tombstone
// that is written then has the same number, and says the same.
func TestATombstoneThatIsWrittenAgainSaysTheSame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		w.stop()

		w.store = &refusing{w.store, time.Now().Add(time.Minute)}
		w.start()
		w.teardown(resources.NewVMConfig("web"))
		w.pass(30 * time.Second)
		w.leave("web")
		w.pass(10 * time.Second)

		first := w.tombstones()
		require.Len(t, first, 1)
		require.NoError(t, w.store.State().Destroy(t.Context(), first[0].Metadata()))
		w.pass(5 * time.Minute)

		again := w.tombstones()
		require.Len(t, again, 1)
		require.Equal(t, *first[0].TypedSpec(), *again[0].TypedSpec())
		require.Nil(t, get(w, resources.NewVMStatus("web")))
	})
}

func TestVolumesOfDisksThatLeftTheDocumentAreNamedAsLeftBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", func(s *resources.VMConfigSpec) {
			s.Disks = append(s.Disks, resources.Disk{Name: "old", Size: resources.GiB, OnDelete: resources.OnDeleteRemove})
		})
		w.declare("web", func(s *resources.VMConfigSpec) { s.Disks = s.Disks[:1] })
		w.pass(time.Minute)
		w.teardown(resources.NewVMConfig("web"))
		w.pass(2 * time.Minute)

		require.Len(t, w.host().Volumes(), 2)
		require.ElementsMatch(t, []string{"volume web.root.qcow2 on host a", "volume web.old.qcow2 on host a"}, w.tombstones()[0].TypedSpec().LeftBehind)
	})
}
