package retention_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/retention"
	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

type noPacer struct{}

func (noPacer) Wait(ctx context.Context) error { return ctx.Err() }

// run runs the test in a bubble of virtual time with the controller running.
func run(t *testing.T, test func(t *testing.T, st state.State)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		st := store.NewMemory("test").State()
		stop := rig.Run(t, st, retention.New(retention.Options{Pacer: noPacer{}}))
		test(t, st)
		stop()
	})
}

func TestHandledEventsAndActionsGoAfterFiveSeconds(t *testing.T) {
	for name, r := range map[string]resource.Resource{
		resources.SourceWebhooks:      resources.NewWebhookEvent("a"),
		resources.SourceSubscriptions: resources.NewMessageEvent("a"),
		resources.ControllerTrigger:   resources.NewAction("a"),
		"":                            resources.NewAction("b"), // made by the API, which owns nothing
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, st state.State) {
				r.Metadata().Finalizers().Add("trigger")
				require.NoError(t, st.Create(t.Context(), r, state.WithCreateOwner(name)))

				rig.Settle(t, time.Minute)
				require.NotNil(t, rig.Get[resource.Resource](t, st, r.Metadata()), "somebody has yet to handle it")

				require.NoError(t, st.RemoveFinalizer(t.Context(), r.Metadata(), "trigger"))
				rig.Settle(t, 2*time.Second)
				require.Nil(t, rig.Get[resource.Resource](t, st, r.Metadata()))
			})
		})
	}
}

func TestAnEventWithATargetStaysForFiveSeconds(t *testing.T) {
	run(t, func(t *testing.T, st state.State) {
		e := resources.NewWebhookEvent("a")
		e.TypedSpec().Event.Target = &resources.Target{Kind: "VM", Name: "web"}
		require.NoError(t, st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))

		rig.Settle(t, 4900*time.Millisecond)
		require.NotNil(t, rig.Get[resource.Resource](t, st, e.Metadata()))
		rig.Settle(t, 1200*time.Millisecond)
		require.Nil(t, rig.Get[resource.Resource](t, st, e.Metadata()))
	})
}

func TestAnEventWithoutATargetGoesAtTheNextLook(t *testing.T) {
	run(t, func(t *testing.T, st state.State) {
		e := resources.NewWebhookEvent("a")
		require.NoError(t, st.Create(t.Context(), e, state.WithCreateOwner(resources.SourceWebhooks)))

		rig.Settle(t, 1100*time.Millisecond)
		require.Nil(t, rig.Get[resource.Resource](t, st, e.Metadata()))
	})
}

func TestRequestsToLookAgainGoAfterAMinuteAndSlicesStay(t *testing.T) {
	run(t, func(t *testing.T, st state.State) {
		require.NoError(t, st.Create(t.Context(), resources.NewResync("sync.vm.web")))
		require.NoError(t, st.Create(t.Context(), resources.NewResync("slice-0"), state.WithCreateOwner(resources.ControllerResync)))

		rig.Settle(t, 2*time.Minute)

		left := rig.List(t, st, resources.NewResync("").Metadata())
		require.Len(t, left, 1)
		require.Equal(t, "slice-0", left[0].Metadata().ID())
	})
}

func TestAHoldEndsWhenItsVMIsGone(t *testing.T) {
	run(t, func(t *testing.T, st state.State) {
		vm := resources.NewVMConfig("web")
		vm.Metadata().Finalizers().Add(resources.ControllerVM)
		require.NoError(t, st.Create(t.Context(), vm))

		hold := resources.NewHold(resources.HoldID("VM", "web"))
		hold.TypedSpec().Kind, hold.TypedSpec().Name = "VM", "web"
		require.NoError(t, st.Create(t.Context(), hold))

		tearDown(t, st)
		rig.Settle(t, time.Second)
		require.NotNil(t, rig.Get[*resources.Hold](t, st, hold.Metadata()), "it is in teardown, and held")

		require.NoError(t, st.RemoveFinalizer(t.Context(), vm.Metadata(), resources.ControllerVM))
		require.NoError(t, st.Destroy(t.Context(), vm.Metadata()))
		rig.Settle(t, time.Second)
		require.Nil(t, rig.Get[*resources.Hold](t, st, hold.Metadata()))
	})
}

func TestAnOverrideEnds(t *testing.T) {
	setCPUs := func(n int) func(*testing.T, state.State) {
		return func(t *testing.T, st state.State) {
			t.Helper()

			_, err := st.ModifyWithResult(t.Context(), resources.NewVMConfig("web"), func(r resource.Resource) error {
				r.Spec().(*resources.VMConfigSpec).CPUs = n
				resources.SetRevision(r.Metadata(), 2)

				return nil
			})
			require.NoError(t, err)
		}
	}

	for name, tc := range map[string]struct {
		override resources.OverrideSpec
		change   func(*testing.T, state.State)
		stays    bool
	}{
		"when its time is over": {
			resources.OverrideSpec{Patch: resources.JSON(`{"power":"stopped"}`), Until: time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)},
			func(t *testing.T, _ state.State) { t.Helper(); rig.Settle(t, 3*time.Hour) }, false,
		},
		"not before": {
			resources.OverrideSpec{Patch: resources.JSON(`{"power":"stopped"}`), Until: time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)},
			func(t *testing.T, _ state.State) { t.Helper(); rig.Settle(t, time.Hour) }, true,
		},
		"when the document changes in its fields":  {resources.OverrideSpec{Patch: resources.JSON(`{"cpus":8}`), Base: resources.JSON(`{"cpus":1}`), Revision: 1}, setCPUs(2), false},
		"not when it changes elsewhere":            {resources.OverrideSpec{Patch: resources.JSON(`{"power":"stopped"}`), Base: resources.JSON(`{"power":"running"}`), Revision: 1}, setCPUs(2), true},
		"when its VM is torn down":                 {resources.OverrideSpec{Patch: resources.JSON(`{"cpus":8}`)}, tearDown, false},
		"not while a restart that it asks for may": {resources.OverrideSpec{RestartID: "r1", Patch: resources.JSON(`{"cpus":8}`), Base: resources.JSON(`{"cpus":1}`), Revision: 1}, setCPUs(2), true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, st state.State) {
				vm := resources.NewVMConfig("web")
				resources.SetRevision(vm.Metadata(), 1)
				require.NoError(t, st.Create(t.Context(), vm))

				o := resources.NewOverride("web")
				*o.TypedSpec() = tc.override
				require.NoError(t, st.Create(t.Context(), o))
				rig.Settle(t, time.Second)
				require.NotNil(t, rig.Get[*resources.Override](t, st, o.Metadata()))

				tc.change(t, st)
				rig.Settle(t, time.Second)

				got := rig.Get[*resources.Override](t, st, o.Metadata())
				require.Equal(t, tc.stays, got != nil)

				if tc.override.RestartID != "" {
					require.Empty(t, got.TypedSpec().Patch, "the patch ends, the restart stays asked for")
					require.Equal(t, "r1", got.TypedSpec().RestartID)
				}
			})
		})
	}
}

func TestAnOverrideEndsFieldByField(t *testing.T) {
	run(t, func(t *testing.T, st state.State) {
		vm := resources.NewVMConfig("web")
		vm.Metadata().Labels().Set("tag", "old")
		require.NoError(t, st.Create(t.Context(), vm))

		o := resources.NewOverride("web")
		*o.TypedSpec() = resources.OverrideSpec{
			Patch: resources.JSON(`{"power":"stopped","cpus":8}`), Base: resources.JSON(`{"power":"running","cpus":1}`),
			Labels: resources.JSON(`{"tag":"new","tier":"web"}`), LabelsBase: resources.JSON(`{"tag":"old","tier":null}`),
			Until: time.Now().Add(2 * time.Hour),
		}
		require.NoError(t, st.Create(t.Context(), o))

		edit := func(change func(vm *resources.VMConfig)) *resources.OverrideSpec {
			_, err := st.ModifyWithResult(t.Context(), resources.NewVMConfig("web"), func(r resource.Resource) error {
				change(r.(*resources.VMConfig))
				resources.SetRevision(r.Metadata(), resources.RevisionOf(r.Metadata())+1)

				return nil
			})
			require.NoError(t, err)
			rig.Settle(t, time.Second)

			if left := rig.Get[*resources.Override](t, st, o.Metadata()); left != nil {
				return left.TypedSpec()
			}

			return nil
		}

		left := edit(func(vm *resources.VMConfig) { vm.Metadata().Labels().Set("tag", "newer") })
		require.JSONEq(t, `{"tier":"web"}`, string(left.Labels), "the document changed one label")
		require.JSONEq(t, `{"tier":null}`, string(left.LabelsBase))
		require.JSONEq(t, `{"power":"stopped","cpus":8}`, string(left.Patch))

		rig.Settle(t, 3*time.Hour)
		left = edit(func(*resources.VMConfig) {})
		require.JSONEq(t, `{"cpus":8}`, string(left.Patch), "only a power state ends by time")
		require.JSONEq(t, `{"tier":"web"}`, string(left.Labels))
		require.True(t, left.Until.IsZero())

		left = edit(func(vm *resources.VMConfig) { vm.TypedSpec().CPUs = 2 })
		require.Empty(t, left.Patch)
		require.Nil(t, edit(func(vm *resources.VMConfig) { vm.Metadata().Labels().Set("tier", "db") }))
	})
}

func tearDown(t *testing.T, st state.State) {
	t.Helper()
	require.NoError(t, st.AddFinalizer(t.Context(), resources.NewVMConfig("web").Metadata(), "placement"))
	_, err := st.Teardown(t.Context(), resources.NewVMConfig("web").Metadata())
	require.NoError(t, err)
	rig.Settle(t, time.Second)
	require.NoError(t, st.RemoveFinalizer(t.Context(), resources.NewVMConfig("web").Metadata(), "placement"))
}
