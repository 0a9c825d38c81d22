package documents_test

import (
	"context"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// labelled is a document of a VM with labels.
func labelled(name, labels string) string {
	return "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: " + name + ", labels: {" + labels + "}}\n---\n"
}

func TestAPatchOfLabelsStandsAboveTheDocument(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": labelled("web", "tier: web, tag: old") + labelled("db", "tier: db, tag: new")})

		a := action("a1", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":"new","tier":null}},"spec":{"cpus":4}}`)
		w.act(a)
		w.done(a, "")

		require.Equal(t, map[string]string{"tier": "web", "tag": "old"}, w.vm("web").Metadata().Labels().Raw(), "the document stays")

		o := w.override("web").TypedSpec()
		require.JSONEq(t, `{"tag":"new","tier":null}`, string(o.Labels))
		require.JSONEq(t, `{"tag":"old","tier":"web"}`, string(o.LabelsBase))

		noted := w.entries(store.ClassRevision)
		require.Equal(t, "by a patch of metadata.labels.tag, metadata.labels.tier, spec.cpus", noted[len(noted)-1].Message)

		// The same again is nothing new.
		w.act(action("a2", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":"new"}}}`))
		require.Equal(t, o.Since, w.override("web").TypedSpec().Since)

		// Selectors go by the labels that count.
		w.act(action("a3", resources.ActionPatch, &resources.Target{Kind: "VM", Selector: selector("tag", "new")}, `{"spec":{"memory":"1GiB"}}`))
		require.JSONEq(t, `{"cpus":4,"memory":"1GiB"}`, string(w.override("web").TypedSpec().Patch))
		require.JSONEq(t, `{"memory":"1GiB"}`, string(w.override("db").TypedSpec().Patch))
		w.act(action("a4", resources.ActionPatch, &resources.Target{Kind: "VM", Selector: selector("tag", "old")}, `{"spec":{"maxCpus":8}}`))
		w.act(action("a5", resources.ActionPatch, &resources.Target{Kind: "VM", Selector: selector("tier", "web")}, `{"spec":{"maxCpus":8}}`))
		require.JSONEq(t, `{"cpus":4,"memory":"1GiB"}`, string(w.override("web").TypedSpec().Patch))

		// The document changes one of the labels: it counts again. The other stays as it was patched.
		w.scan(map[string]string{"a.yaml": labelled("web", "tier: web, tag: newest") + labelled("db", "tier: db, tag: new")})
		require.JSONEq(t, `{"tier":null}`, string(w.override("web").TypedSpec().Labels))
		require.JSONEq(t, `{"cpus":4,"memory":"1GiB"}`, string(w.override("web").TypedSpec().Patch))
	})
}

func selector(key, value string) *resources.Selector {
	return &resources.Selector{Match: map[string]string{key: value}}
}

// uncached reads a state as a controller does.
type uncached struct{ state.State }

func (u uncached) GetUncached(ctx context.Context, ptr resource.Pointer, options ...state.GetOption) (resource.Resource, error) {
	return u.Get(ctx, ptr, options...)
}

func (u uncached) ListUncached(ctx context.Context, kind resource.Kind, options ...state.ListOption) (resource.List, error) {
	return u.List(ctx, kind, options...)
}

func TestAnEventsSelectorGoesByTheLabelsThatCount(t *testing.T) {
	run(t, func(w *world) {
		w.scan(map[string]string{"a.yaml": labelled("web", "tag: old") + labelled("db", "tag: new")})
		w.act(action("a1", resources.ActionPatch, vmTarget("web"), `{"metadata":{"labels":{"tag":"new"}}}`))

		for tag, want := range map[string][]string{"new": {"db", "web"}, "old": {}} {
			vms, err := chain.TargetVMs(t.Context(), uncached{w.st}, &resources.Target{Kind: "VM", Selector: selector("tag", tag)})
			require.NoError(t, err)

			names := []string{}
			for _, vm := range vms {
				names = append(names, vm.ID())
			}

			require.Equal(t, want, names, tag)
		}
	})
}
