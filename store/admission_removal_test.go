package store_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

func lan(subnet string) *resources.Network {
	n := resources.NewNetwork("lan")
	*n.TypedSpec() = resources.NetworkSpec{Mode: resources.NetworkNAT, Subnet: subnet}

	return n
}

func node() *resources.Host {
	h := resources.NewHost("a")
	h.TypedSpec().URI = "sim://a"

	return h
}

// use puts the finalizer of the controller on an object that says that VMs use it.
func (f *fixture) use(t *testing.T, ptr resource.Pointer, controller string) {
	t.Helper()
	require.NoError(t, f.State().AddFinalizer(t.Context(), ptr, controller))
}

func (f *fixture) metadata(t *testing.T, ptr resource.Pointer) *resource.Metadata {
	t.Helper()

	r, err := f.State().Get(t.Context(), ptr)
	require.NoError(t, err)

	return r.Metadata()
}

func TestWhatVMsUseIsTakenAwayOnlyWhenTheyAreGoneAndCanBeDeclaredAgainUntilThen(t *testing.T) {
	for name, test := range map[string]struct {
		object resource.Resource
		user   string
	}{
		"a host":    {node(), resources.ControllerPlacement},
		"a network": {lan("10.7.0.0/24"), resources.ControllerNetwork},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			ptr := test.object.Metadata()
			kind := resources.KindOf(ptr)
			removal := store.Removal{Kind: kind, Name: ptr.ID(), Origin: fileA, Cause: "event-9"}

			f.apply(t, store.Change{Object: test.object, Origin: fileA})
			f.use(t, ptr, test.user)
			uid := resources.UIDOf(f.metadata(t, ptr))

			require.NoError(t, f.Delete(t.Context(), f.w, removal))
			require.NoError(t, f.Delete(t.Context(), f.w, removal), "deleting again is success")

			md := f.metadata(t, ptr)
			require.Equal(t, resource.PhaseRunning, md.Phase(), "COSI can't take a teardown back")
			require.True(t, resources.IsLeaving(md))
			require.Empty(t, resources.UserAnnotations(md))

			done := f.apply(t, store.Change{Object: test.object, Origin: fileB, Cause: "event-10"})
			require.Equal(t, resources.OutcomeUpdated, done.Outcome)
			require.Equal(t, int64(1), done.Revision, "nothing that counts has changed")

			md = f.metadata(t, ptr)
			require.False(t, resources.IsLeaving(md))
			require.Equal(t, fileB, resources.OriginOf(md), "who declares it now has it")
			require.Equal(t, uid, resources.UIDOf(md))

			removal.Origin = fileB
			require.NoError(t, f.State().RemoveFinalizer(t.Context(), ptr, test.user))
			require.NoError(t, f.Delete(t.Context(), f.w, removal))
			require.Equal(t, resource.PhaseTearingDown, f.metadata(t, ptr).Phase(), "nobody uses it")
		})
	}
}

func TestAnotherNetworkOfANameWaitsUntilTheOneInUseIsGone(t *testing.T) {
	f := newFixture(t, nil)
	ptr := lan("").Metadata()

	f.apply(t, store.Change{Object: lan("10.7.0.0/24"), Origin: fileA})
	f.use(t, ptr, resources.ControllerNetwork)
	require.NoError(t, f.Delete(t.Context(), f.w, store.Removal{Kind: resources.KindOf(ptr), Name: "lan", Origin: fileA}))

	_, err := f.Apply(t.Context(), f.w, store.Change{Object: lan("10.8.0.0/24"), Origin: fileA})
	requireReason(t, err, resources.ReasonWaiting)
	require.True(t, resources.IsLeaving(f.metadata(t, ptr)))
}

func TestATeardownOfAClientIsHeldByWhoUsesTheObjectToo(t *testing.T) {
	f := newFixture(t, nil)
	ptr := node().Metadata()

	f.apply(t, store.Change{Object: node(), Origin: viaAPI})
	f.use(t, ptr, resources.ControllerPlacement)

	ready, err := state.WrapCore(f.Guard(f.State())).Teardown(t.Context(), ptr)
	require.NoError(t, err)
	require.False(t, ready)

	md := f.metadata(t, ptr)
	require.Equal(t, resource.PhaseRunning, md.Phase())
	require.True(t, resources.IsLeaving(md))
}

func TestAHostThatIsGivenUpIsTornDownWhoeverUsesIt(t *testing.T) {
	f := newFixture(t, nil)
	ptr := node().Metadata()
	kind := resources.KindOf(ptr)

	f.apply(t, store.Change{Object: node(), Origin: fileA})
	f.use(t, ptr, resources.ControllerPlacement)
	require.NoError(t, f.Delete(t.Context(), f.w, store.Removal{Kind: kind, Name: "a", Origin: fileA}))

	giveUp := store.Removal{Kind: kind, Name: "a", Origin: viaAPI, Cause: "api-1", Force: true, Abandon: true, Lost: []string{"VM web-1"}}
	require.NoError(t, f.Delete(t.Context(), f.w, giveUp))
	require.NoError(t, f.Delete(t.Context(), f.w, giveUp), "giving it up again is success")

	md := f.metadata(t, ptr)
	require.Equal(t, resource.PhaseTearingDown, md.Phase())
	require.True(t, resources.IsAbandoned(md))

	entries, err := f.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassForced}, Object: "Host/a"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Contains(t, entries[0].Message, "given up: VM web-1")

	_, err = f.Apply(t.Context(), f.w, store.Change{Object: node(), Origin: fileA})
	requireReason(t, err, resources.ReasonWaiting)
}
