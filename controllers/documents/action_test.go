package documents_test

import (
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/internal/rig"
	"gateway/resources"
	"gateway/store"
)

// action makes an action of a trigger.
func action(id, verb string, target *resources.Target, body string) *resources.Action {
	a := resources.NewAction(id)
	*a.TypedSpec() = resources.ActionSpec{Verb: verb, Target: target, Body: resources.JSON(body), By: "trigger:t", Cause: "e1"}

	return a
}

func vmTarget(name string) *resources.Target { return &resources.Target{Kind: "VM", Name: name} }

func (w *world) override(name string) *resources.Override {
	w.Helper()

	return rig.Get[*resources.Override](w.T, w.st, resources.NewOverride(name).Metadata())
}

// done asserts that the action was executed, or refused with a message.
func (w *world) done(a *resources.Action, refusal string) {
	w.Helper()

	got := rig.Get[*resources.Action](w.T, w.st, a.Metadata())
	require.True(w, got == nil || got.Metadata().Finalizers().Empty(), "the action is finished")

	dead := w.entries(store.ClassDead)
	if refusal == "" {
		require.Empty(w, dead)

		return
	}

	require.Contains(w, dead[len(dead)-1].Message, refusal)
	require.Equal(w, "e1", dead[len(dead)-1].EventID)
}

func TestAPatchOfADocumentsVMIsAnOverride(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2")})

		a := action("a1", resources.ActionPatch, vmTarget("web"), `{"spec":{"power":"stopped","shutdown":{"grace":"5s"}}}`)
		w.act(a)
		w.done(a, "")

		require.Equal(t, resources.PowerRunning, w.vm("web").TypedSpec().Power, "the document stays")

		o := w.override("web").TypedSpec()
		require.JSONEq(t, `{"power":"stopped","shutdown":{"grace":"5s"}}`, string(o.Patch))
		require.JSONEq(t, `{"power":"running","shutdown":{"grace":"1m"}}`, string(o.Base))
		require.Equal(t, int64(1), o.Revision)
		require.Equal(t, "trigger:t", o.By)
		require.Empty(t, w.override("web").Metadata().Owner(), "the API writes it too")

		// A second patch comes on top.
		w.act(action("a2", resources.ActionPatch, vmTarget("web"), `{"spec":{"cpus":4}}`))
		require.JSONEq(t, `{"cpus":4,"power":"stopped","shutdown":{"grace":"5s"}}`, string(w.override("web").TypedSpec().Patch))

		// The document changes elsewhere: it stays. In some of its fields: it ends for those, and with the last it is gone.
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 2, description: x")})
		require.JSONEq(t, `{"cpus":4,"power":"stopped","shutdown":{"grace":"5s"}}`, string(w.override("web").TypedSpec().Patch))
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 3, description: x")})
		require.JSONEq(t, `{"power":"stopped","shutdown":{"grace":"5s"}}`, string(w.override("web").TypedSpec().Patch))
		w.scan(map[string]string{"a.yaml": document("web", "cpus: 3, power: paused, shutdown: {grace: 9s}")})
		require.Nil(t, w.override("web"))
	})
}

func TestAPatchOfAnotherVMChangesIt(t *testing.T) {
	run(t, func(w *world) {
		w.webhook("e0", document("web", "cpus: 2"), resources.ApplyRule{Kinds: []string{"VM"}})

		a := action("a1", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":"abc"}},"spec":{"cpus":4}}`)
		w.act(a)
		w.done(a, "")

		vm := w.vm("web")
		require.Equal(t, 4, vm.TypedSpec().CPUs)
		tag, _ := vm.Metadata().Labels().Get("tag")
		require.Equal(t, "abc", tag)
		require.Equal(t, "webhook:inbox", resources.OriginOf(vm.Metadata()).String(), "it stays the declarer's")
		require.Equal(t, "e1", resources.CauseOf(vm.Metadata()))
		require.Nil(t, w.override("web"))
	})
}

func TestActionsThatCannotBeExecutedAreDead(t *testing.T) {
	for name, tc := range map[string]struct {
		action  *resources.Action
		refusal string
	}{
		"a patch of a document's notes":     {action("a", resources.ActionPatch, vmTarget("web"), `{"metadata":{"annotations":{"a":"b"}}}`), "metadata.annotations is declared by a file"},
		"a patch of a document's name":      {action("a", resources.ActionPatch, vmTarget("web"), `{"metadata":{"name":"b"}}`), "metadata.name is declared by a file"},
		"a patch of a document's kind":      {action("a", resources.ActionPatch, vmTarget("web"), `{"kind":"Host"}`), "kind is declared by a file"},
		"a label that is none":              {action("a", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":"a\u0007b"}}}`), "metadata.labels"},
		"a label that is a number":          {action("a", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":7}}}`), "metadata.labels.tag: a text is required"},
		"labels that are none":              {action("a", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":[]}}`), "metadata.labels: a mapping is required"},
		"a specification that is none":      {action("a", resources.ActionPatch, vmTarget("web"), `{"spec":7}`), "spec: a mapping is required"},
		"a patch that policy refuses":       {action("a", resources.ActionPatch, vmTarget("web"), `{"spec":{"boot":{"kernel":"/etc/shadow"}}}`), "spec.boot.kernel"},
		"a patch that shrinks a disk":       {action("a", resources.ActionPatch, vmTarget("web"), `{"spec":{"disks":[{"name":"root","size":"1GiB"}]}}`), "a disk only grows"},
		"a patch with an unknown field":     {action("a", resources.ActionPatch, vmTarget("web"), `{"spec":{"cpu":1}}`), "cpu"},
		"a patch out of range":              {action("a", resources.ActionPatch, vmTarget("web"), `{"spec":{"cpus":0}}`), "cpus"},
		"a patch of a document's host":      {action("a", resources.ActionPatch, &resources.Target{Kind: "Host", Name: "h"}, `{"spec":{"drain":true}}`), "change it there"},
		"a patch of nothing":                {action("a", resources.ActionPatch, vmTarget("nope"), `{"spec":{"cpus":1}}`), "does not exist"},
		"the deletion of a document's VM":   {action("a", resources.ActionDelete, vmTarget("web"), ""), "remove it there"},
		"an apply of a document's VM":       {action("a", resources.ActionApply, nil, webDocument), "is declared by file:"},
		"an apply of a host":                {action("a", resources.ActionApply, nil, `{"apiVersion":"gateway/v1alpha1","kind":"Host","metadata":{"name":"x"},"spec":{"uri":"sim://x"}}`), "may not declare a Host"},
		"an apply of nothing":               {action("a", resources.ActionApply, nil, `"x"`), "JSON object"},
		"a sync without a target":           {action("a", resources.ActionSync, nil, ""), "needs a target"},
		"a confirmation without its digest": {action("a", resources.ActionConfirm, nil, "{}"), "digest"},
		"an unknown verb":                   {action("a", "dance", nil, ""), "not a verb"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.scan(map[string]string{"a.yaml": document("web", "cpus: 2, disks: [{name: root, size: 2GiB}]") +
					"apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: h}\nspec: {uri: \"sim://h\"}\n"})
				w.act(tc.action)
				w.done(tc.action, tc.refusal)
				require.Equal(t, 2, w.vm("web").TypedSpec().CPUs)
				require.Equal(t, resource.PhaseRunning, w.vm("web").Metadata().Phase())
				require.Nil(t, w.override("web"))
			})
		})
	}
}

const webDocument = `{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"web"},"spec":{"cpus":8}}`

func TestApplySyncAndDelete(t *testing.T) {
	run(t, func(w *world) {
		w.act(action("a1", resources.ActionApply, nil, webDocument))
		require.Equal(t, "trigger:t", resources.OriginOf(w.vm("web").Metadata()).String())

		w.act(action("a2", resources.ActionSync, vmTarget("web"), ""))
		w.act(action("a3", resources.ActionSync, vmTarget("web"), ""))

		resync := rig.Get[*resources.Resync](t, w.st, resources.NewResync("sync.vm.web").Metadata())
		require.Equal(t, uint64(2), resync.TypedSpec().Sequence)
		require.True(t, resync.TypedSpec().Contains("web", nil))

		w.act(action("a4", resources.ActionSync, &resources.Target{Kind: "VM", Selector: &resources.Selector{}}, ""))
		require.Len(t, rig.List(t, w.st, resources.NewResync("").Metadata()), 2)

		w.webhook("e0", document("db", ""), resources.ApplyRule{Kinds: []string{"VM"}})
		w.act(action("a5", resources.ActionDelete, &resources.Target{Kind: "VM", Selector: &resources.Selector{}}, ""))
		require.Empty(t, w.vms(), "what senders and triggers declared")
		require.Empty(t, w.entries(store.ClassDead))
	})
}

// How long it waits is not counted by when the action was created: by a clock that was set forward since, that is long ago.
func TestAnActionWaitsForAnObjectInTeardown(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"by the right clock": 0, "after the clock was set forward": time.Hour, "after it was set back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.webhook("e0", document("web", "cpus: 1"), resources.ApplyRule{Kinds: []string{"VM"}})
				w.leave("web")

				a := action("a1", resources.ActionApply, nil, webDocument)
				a.Metadata().SetCreated(time.Now().Add(-ahead))
				w.act(a)
				require.Empty(t, w.entries(store.ClassDead), "it waits")

				w.letGo("web")
				rig.Settle(t, 5*time.Second)
				require.Equal(t, resource.PhaseRunning, w.vm("web").Metadata().Phase())
				w.done(a, "")
			})
		})
	}

}

func TestAnActionDoesNotWaitForEver(t *testing.T) {
	run(t, func(w *world) {
		w.webhook("e0", document("web", "cpus: 1"), resources.ApplyRule{Kinds: []string{"VM"}})
		w.leave("web")

		a := action("a1", resources.ActionApply, nil, webDocument)
		a.Metadata().SetCreated(time.Now().Add(time.Hour))
		w.act(a)
		rig.Settle(t, 11*time.Minute)
		w.done(a, "torn down")
		w.letGo("web")
	})
}
