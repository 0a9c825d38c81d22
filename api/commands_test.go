package api_test

import (
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/api/apitest"
	"gateway/resources"
	"gateway/store"
)

// overrideOf returns the override of a VM, nil where there is none.
func overrideOf(t *testing.T, w *apitest.World, vm string) *resources.OverrideSpec {
	t.Helper()

	r, err := w.State.Get(t.Context(), resources.NewOverride(vm).Metadata())
	if state.IsNotFoundError(err) {
		return nil
	}

	require.NoError(t, err)

	return r.(*resources.Override).TypedSpec() //nolint:forcetypeassert // one type a kind
}

func TestAPowerCommandIsAnOverrideOfWhatAFileDeclares(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerStopped, 2*time.Hour))

	o := overrideOf(t, w, "web-1")
	require.JSONEq(t, `{"power": "stopped"}`, string(o.Patch))
	require.JSONEq(t, `{"power": "running"}`, string(o.Base))
	require.Equal(t, int64(1), o.Revision)
	require.Equal(t, 2*time.Hour, o.Until.Sub(o.Since))
	require.Regexp(t, `^user:.+ \(pid \d+\)$`, o.By)

	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerPaused, 0))
	o = overrideOf(t, w, "web-1")
	require.JSONEq(t, `{"power": "paused"}`, string(o.Patch))
	require.Zero(t, o.Until)

	require.NoError(t, w.Client.Declared(t.Context(), "web-1"))
	require.Nil(t, overrideOf(t, w, "web-1"))
	require.NoError(t, w.Client.Declared(t.Context(), "web-1"), "there is none to end")
}

func TestAPowerCommandChangesWhatCameByTheAPI(t *testing.T) {
	w := apitest.Start(t)
	_, err := w.Client.Apply(t.Context(), "-", []byte(twoVMs), false)
	require.NoError(t, err)

	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerPaused, time.Hour))
	require.NotNil(t, overrideOf(t, w, "web-1"), "for a time it is laid above all the same")

	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerStopped, 0))
	require.Nil(t, overrideOf(t, w, "web-1"), "and the next command ends it")

	vm, err := w.State.Get(t.Context(), resources.NewVMConfig("web-1").Metadata())
	require.NoError(t, err)
	require.Equal(t, resources.PowerStopped, vm.(*resources.VMConfig).TypedSpec().Power) //nolint:forcetypeassert // one type a kind
	require.Equal(t, int64(2), resources.RevisionOf(vm.Metadata()))
}

func TestARestartIsAskedForOnce(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	require.NoError(t, w.Client.Restart(t.Context(), "web-1"))
	first := overrideOf(t, w, "web-1").RestartID
	require.NotEmpty(t, first)

	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerRunning, 0))
	require.Equal(t, first, overrideOf(t, w, "web-1").RestartID, "another command is no restart")

	require.NoError(t, w.Client.Restart(t.Context(), "web-1"))
	require.NotEqual(t, first, overrideOf(t, w, "web-1").RestartID)
	require.JSONEq(t, `{"power": "running"}`, string(overrideOf(t, w, "web-1").Patch))
}

func TestCommandsRefuseWhatMakesNoSense(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	w.VM("going", nil)
	require.NoError(t, w.Client.Delete(t.Context(), "VM", "going", true))

	host := resources.NewHost("a")
	host.TypedSpec().URI = "sim://a"
	w.Declare(host)

	ctx, c := t.Context(), w.Client

	for text, test := range map[string]struct {
		err  error
		want string
	}{
		"an unknown state":           {c.Power(ctx, "web-1", "off", 0), `"off" is not a power state`},
		"a VM that is not there":     {c.Power(ctx, "web-9", "stopped", 0), `VM "web-9": not found`},
		"a VM that is being deleted": {c.Power(ctx, "going", "stopped", 0), `VM "going" is being deleted`},
		"a restart of nothing":       {c.Restart(ctx, "web-9"), `VM "web-9": not found`},
		"a hold of a host":           {c.Hold(ctx, "Host", "a", ""), "a Host can't be held: only VMs can"},
		"a hold of nothing":          {c.Hold(ctx, "VM", "web-9", ""), `VM "web-9": not found`},
		"a release without a hold":   {c.Release(ctx, "VM", "web-1"), `VM "web-1" is not held`},
		"a sync of nothing":          {c.Sync(ctx, resources.Target{Kind: "VM", Name: "web-9"}), `VM "web-9": not found`},
		"a sync without a choice":    {c.Sync(ctx, resources.Target{Kind: "VM"}), "a name or a selector is required; the selector {} means all"},
	} {
		require.EqualError(t, test.err, test.want, text)
	}

	_, err := c.Confirm(ctx, "/etc/gateway/documents.d")
	require.EqualError(t, err, "no deletion of /etc/gateway/documents.d waits for a confirmation")
}

func TestAHoldStandsUntilItIsReleased(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	require.NoError(t, w.Client.Hold(t.Context(), "vms", "web-1", "a disk is copied"))
	require.NoError(t, w.Client.Hold(t.Context(), "VM", "web-1", "still"))

	hold, err := w.State.Get(t.Context(), resources.NewHold("vm.web-1").Metadata())
	require.NoError(t, err)
	require.Equal(t, "still", hold.(*resources.Hold).TypedSpec().Reason) //nolint:forcetypeassert // one type a kind

	require.NoError(t, w.Client.Release(t.Context(), "VM", "web-1"))
	require.Error(t, w.Client.Release(t.Context(), "VM", "web-1"))
}

func TestASyncIsAChangeEachTime(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)

	selector := &resources.Selector{Match: map[string]string{"tier": "web"}}
	for range 2 {
		require.NoError(t, w.Client.Sync(t.Context(), resources.Target{Kind: "vm", Selector: selector}))
		require.NoError(t, w.Client.Sync(t.Context(), resources.Target{Kind: "VM", Name: "web-1"}))
	}

	list, err := w.State.List(t.Context(), resources.KindOf(resources.NewResync("").Metadata()).List())
	require.NoError(t, err)
	require.Len(t, list.Items, 2)

	for _, r := range list.Items {
		spec := r.(*resources.Resync).TypedSpec() //nolint:forcetypeassert // one type a kind
		require.Equal(t, "VM", spec.Target.Kind)
		require.Equal(t, uint64(2), spec.Sequence)
	}
}

func TestAConfirmationHoldsForWhatWasHeldBack(t *testing.T) {
	w := apitest.Start(t)
	guard := resources.NewDeletionGuard(resources.FileID(apitest.File.Root))
	*guard.TypedSpec() = resources.DeletionGuardSpec{Root: apitest.File.Root, Digest: "abc", Count: 30, Total: 40, Since: time.Now()}
	require.NoError(t, w.State.Create(t.Context(), guard))

	for range 2 { // asking twice is asking once
		held, err := w.Client.Confirm(t.Context(), apitest.File.Root)
		require.NoError(t, err)
		require.Equal(t, 30, held.Count)
	}

	actions, err := w.State.List(t.Context(), resources.KindOf(resources.NewAction("").Metadata()).List())
	require.NoError(t, err)
	require.Len(t, actions.Items, 1)

	action := actions.Items[0].(*resources.Action) //nolint:forcetypeassert // one type a kind
	require.Equal(t, resources.ActionConfirm, action.TypedSpec().Verb)
	require.Equal(t, apitest.File.Root, action.TypedSpec().Subject)
	require.JSONEq(t, `{"digest": "abc"}`, string(action.TypedSpec().Body))
	require.True(t, action.Metadata().Finalizers().Has(resources.FinalizerDocuments))
}

func TestEveryCommandIsJournalledWithWhoGaveIt(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerStopped, 0))
	require.NoError(t, w.Client.Restart(t.Context(), "web-1"))
	require.NoError(t, w.Client.Sync(t.Context(), resources.Target{Kind: "VM", Name: "web-1"}))
	require.NoError(t, w.Client.Delete(t.Context(), "VM", "web-1", true))

	entries, err := w.Client.Journal(t.Context(), store.Query{Classes: []store.Class{store.ClassCommand}}, 0)
	require.NoError(t, err)

	var commands []string
	for _, e := range entries {
		require.Regexp(t, `^user:.+ \(pid \d+\)$`, e.Peer)
		commands = append(commands, e.Name+" "+e.Object)
	}

	require.Equal(t, []string{"power stopped VM/web-1", "restart VM/web-1", "sync VM/web-1", "delete --force VM/web-1"}, commands)
}
