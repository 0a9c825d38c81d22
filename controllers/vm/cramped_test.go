package vm_test

import (
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestAVMThatDoesNotFitLargerKeepsItsSizeUntilItDoes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		before := w.domain("web").Spec.Memory

		verdict := func(reason string) {
			_, err := w.store.State().UpdateWithConflicts(t.Context(), resources.NewVMPlacement("web").Metadata(), func(r resource.Resource) error {
				r.(*resources.VMPlacement).TypedSpec().Reason = reason

				return nil
			}, state.WithUpdateOwner(get(w, resources.NewVMPlacement("web")).Metadata().Owner()))
			require.NoError(t, err)
		}

		verdict(resources.ReasonNotEnoughCapacity)
		w.declare("web", func(s *resources.VMConfigSpec) { s.Memory, s.Description = 64*resources.GiB, "larger" })
		w.pass(time.Second)
		require.Equal(t, before, w.domain("web").Spec.Memory)
		require.Equal(t, "larger", w.domain("web").Spec.Description, "what needs no room is changed")
		require.Equal(t, resources.ReasonNotEnoughCapacity, w.reason("web", resources.ConditionFalse))
		require.Equal(t, resources.StateRunning, w.status("web").State)

		verdict(resources.ReasonPlaced)
		w.pass(time.Second)
		require.Equal(t, 64*resources.GiB, w.domain("web").Spec.Memory)
	})
}
