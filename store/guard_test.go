package store_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gateway/resources"
	"gateway/store"
)

func (f *fixture) guarded() state.State { return state.WrapCore(f.Guard(f.State())) }

func TestAClientDeclaresThroughTheAdmission(t *testing.T) {
	f := newFixture(t, nil)
	st := f.guarded()

	forged := vm("web")
	resources.SetOrigin(forged.Metadata(), fileA)
	resources.SetUID(forged.Metadata(), "mine")
	forged.Metadata().Finalizers().Add("vm")
	require.NoError(t, st.Create(t.Context(), forged))

	md := f.vm(t, "web").Metadata()
	require.Equal(t, viaAPI, resources.OriginOf(md))
	require.NotEqual(t, "mine", resources.UIDOf(md))
	require.True(t, md.Finalizers().Empty())
	require.Equal(t, md.Version(), forged.Metadata().Version(), "the client learns what is stored")
	require.Equal(t, resources.UIDOf(md), resources.UIDOf(forged.Metadata()))

	require.True(t, state.IsConflictError(st.Create(t.Context(), vm("web"))), "creating again does not change")

	changed, err := st.UpdateWithConflicts(t.Context(), md, func(r resource.Resource) error {
		r.(*resources.VMConfig).TypedSpec().CPUs = 3
		resources.SetRevision(r.Metadata(), 77)

		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(2), resources.RevisionOf(changed.Metadata()))
	require.Equal(t, 3, f.vm(t, "web").TypedSpec().CPUs)

	_, err = st.UpdateWithConflicts(t.Context(), md, func(r resource.Resource) error {
		r.(*resources.VMConfig).TypedSpec().CPUs = 100_000

		return nil
	})
	requireReason(t, err, resources.ReasonInvalid)

	stale := vm("web", cpus(9))
	*stale.Metadata() = *md
	require.True(t, state.IsConflictError(st.Update(t.Context(), stale)))

	entries, err := f.Journal().Query(t.Context(), store.Query{Object: "VM/web"})
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestAClientIsHeldByPolicy(t *testing.T) {
	f := newFixture(t, refuseAll{})
	requireReason(t, f.guarded().Create(t.Context(), vm("web")), resources.ReasonPolicyRefused)
}

func TestAClientEditsEverythingButWhatAFileDeclares(t *testing.T) {
	for name, test := range map[string]struct {
		owner  resources.Origin
		reason string
	}{
		"the API's":    {viaAPI, ""},
		"a webhook's":  {webhook, ""},
		"a file's":     {fileA, resources.ReasonNotOwned},
		"not declared": {resources.Origin{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)

			if test.owner.IsZero() {
				require.NoError(t, f.State().Create(t.Context(), vm("web")))
			} else {
				f.apply(t, store.Change{Object: vm("web"), Origin: test.owner})
			}

			_, err := f.guarded().UpdateWithConflicts(t.Context(), vm("web").Metadata(), func(r resource.Resource) error {
				r.(*resources.VMConfig).TypedSpec().Power = resources.PowerStopped

				return nil
			})

			if test.reason != "" {
				require.Contains(t, requireReason(t, err, test.reason).Error(), fileA.Name)

				return
			}

			require.NoError(t, err)

			md := f.vm(t, "web").Metadata()
			require.NotEmpty(t, resources.UIDOf(md))

			if !test.owner.IsZero() {
				require.Equal(t, test.owner, resources.OriginOf(md), "it stays the declarer's")
			}
		})
	}
}

func TestAClientTearsDownWhatItMayDelete(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("api"), Origin: viaAPI})
	f.apply(t, store.Change{Object: vm("file"), Origin: fileA})
	require.NoError(t, f.State().AddFinalizer(t.Context(), vm("api").Metadata(), "placement"))

	st := f.guarded()

	_, err := st.Teardown(t.Context(), vm("file").Metadata())
	require.Contains(t, requireReason(t, err, resources.ReasonNotOwned).Error(), fileA.Name)
	requireReason(t, st.Destroy(t.Context(), vm("file").Metadata()), resources.ReasonNotOwned)

	ready, err := st.Teardown(t.Context(), vm("api").Metadata())
	require.NoError(t, err)
	require.False(t, ready)
	require.Equal(t, resource.PhaseTearingDown, f.vm(t, "api").Metadata().Phase())

	requireReason(t, st.RemoveFinalizer(t.Context(), vm("api").Metadata(), "placement"), resources.ReasonNotOwned)
	require.True(t, state.IsConflictError(st.Destroy(t.Context(), vm("api").Metadata())), "placement still holds it")

	back := f.vm(t, "api")
	back.Metadata().SetPhase(resource.PhaseRunning)
	requireReason(t, st.Update(t.Context(), back, state.WithExpectedPhaseAny()), resources.ReasonWaiting)

	require.NoError(t, f.State().RemoveFinalizer(t.Context(), vm("api").Metadata(), "placement"))
	require.NoError(t, st.Destroy(t.Context(), vm("api").Metadata()))
}

func TestAClientsOwnFinalizersAreItsOwn(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})

	st, ptr := f.guarded(), vm("web").Metadata()
	require.NoError(t, st.AddFinalizer(t.Context(), ptr, "backup-tool"))
	require.True(t, f.vm(t, "web").Metadata().Finalizers().Has("backup-tool"))
	require.NoError(t, st.RemoveFinalizer(t.Context(), ptr, "backup-tool"))
	require.True(t, f.vm(t, "web").Metadata().Finalizers().Empty())
	require.Equal(t, int64(1), resources.RevisionOf(f.vm(t, "web").Metadata()))

	requireReason(t, st.AddFinalizer(t.Context(), ptr, "vm"), resources.ReasonNotOwned)
}

func TestAClientWritesCommandsAndNothingElse(t *testing.T) {
	f := newFixture(t, nil)
	st := f.guarded()

	for _, command := range []resource.Resource{
		resources.NewOverride("web"), resources.NewHold("vm.web"), resources.NewResync("sync.vm.web"),
	} {
		require.NoError(t, st.Create(t.Context(), command))
		require.NoError(t, st.AddFinalizer(t.Context(), command.Metadata(), "mine"))
		require.NoError(t, st.RemoveFinalizer(t.Context(), command.Metadata(), "mine"))
		require.NoError(t, st.Destroy(t.Context(), command.Metadata()))
	}

	for _, other := range []resource.Resource{
		resources.NewVMStatus("web"), resources.NewVMPlacement("web"), resources.NewWebhookEvent("e"), resources.NewApplyResult("r"),
	} {
		require.ErrorContains(t, st.Create(t.Context(), other), "is read-only")

		require.NoError(t, f.State().Create(t.Context(), other))
		require.ErrorContains(t, st.Update(t.Context(), other), "is read-only")
		require.ErrorContains(t, st.Destroy(t.Context(), other.Metadata()), "is read-only")

		_, err := st.Get(t.Context(), other.Metadata())
		require.NoError(t, err)
	}

	requireReason(t, st.Create(t.Context(), resources.NewHold("no good")), resources.ReasonInvalid)
	requireReason(t, st.Create(t.Context(), vm("web"), state.WithCreateOwner("vm")), resources.ReasonInvalid)
}

func TestAnActionOfAClientIsSignedAndHeldByWhoExecutesIt(t *testing.T) {
	f := newFixture(t, nil)

	action := resources.NewAction("a1")
	action.TypedSpec().Verb, action.TypedSpec().By = resources.ActionSync, "trigger:somebody"
	require.NoError(t, f.guarded().Create(t.Context(), action))

	stored, err := f.State().Get(t.Context(), action.Metadata())
	require.NoError(t, err)
	require.Equal(t, "api", stored.(*resources.Action).TypedSpec().By)
	require.True(t, stored.Metadata().Finalizers().Has(resources.FinalizerDocuments))
	requireReason(t, f.guarded().RemoveFinalizer(t.Context(), action.Metadata(), resources.FinalizerDocuments), resources.ReasonNotOwned)
}

func TestAnOperatorTakesBackWhatATriggerOverrode(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, f.State().Create(t.Context(), resources.NewOverride("web"), state.WithCreateOwner("documents")))
	require.NoError(t, f.guarded().Destroy(t.Context(), resources.NewOverride("web").Metadata()))
}

func TestRefusalsHaveAgRPCCodeThatIsNotTriedAgain(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		resources.ReasonInvalid:       codes.InvalidArgument,
		resources.ReasonImmutable:     codes.InvalidArgument,
		resources.ReasonNotOwned:      codes.PermissionDenied,
		resources.ReasonProtected:     codes.PermissionDenied,
		resources.ReasonPolicyRefused: codes.PermissionDenied,
		resources.ReasonStaleRevision: codes.Aborted,
		resources.ReasonWaiting:       codes.Unavailable,
	} {
		got, ok := status.FromError(&store.AdmissionError{Reason: reason, Object: "VM/web", Message: "no"})
		require.True(t, ok)
		require.Equal(t, code, got.Code(), reason)
		require.Equal(t, reason+": VM/web: no", got.Message())
	}
}
