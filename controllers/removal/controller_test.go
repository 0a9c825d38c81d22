package removal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gateway/controllers/removal"
	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheTeardownBeginsWhenTheLastUserGoesUnlessItIsDeclaredAgain(t *testing.T) {
	for name, test := range map[string]struct {
		again bool
		gone  bool
	}{
		"it is gone with its last user":     {gone: true},
		"what is declared again stays here": {again: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := store.NewMemory("test").State()

				var controllers []controller.QController
				for _, kind := range resources.RemovalKinds() {
					controllers = append(controllers, removal.New(kind))
				}

				defer rig.Run(t, st, controllers...)()

				host := resources.NewHost("a")
				host.Metadata().Finalizers().Add(resources.ControllerPlacement)
				resources.SetRemovalPending(host.Metadata(), "event-1")
				require.NoError(t, st.Create(t.Context(), host))
				rig.Settle(t, time.Hour)
				require.NotNil(t, rig.Get[*resources.Host](t, st, host.Metadata()), "a VM is on it")

				if test.again {
					resources.ClearRemoval(host.Metadata())
					require.NoError(t, st.Update(t.Context(), host))
				}

				require.NoError(t, st.RemoveFinalizer(t.Context(), host.Metadata(), resources.ControllerPlacement))
				rig.Settle(t, time.Hour)
				require.Equal(t, test.gone, rig.Get[*resources.Host](t, st, host.Metadata()) == nil)
			})
		})
	}
}
