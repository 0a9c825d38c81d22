package store_test

import (
	"context"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

func TestCaseV83AProtectedVMIsNotDeletedByAnyWay(t *testing.T) {
	ways := map[string]func(ctx context.Context, f *fixture) error{
		"its own file": func(ctx context.Context, f *fixture) error {
			return f.Delete(ctx, f.w, removal("web", fileA))
		},
		"the API": func(ctx context.Context, f *fixture) error {
			return f.Delete(ctx, f.w, removal("web", viaAPI))
		},
		"the API by force": func(ctx context.Context, f *fixture) error {
			r := removal("web", viaAPI)
			r.Force = true

			return f.Delete(ctx, f.w, r)
		},
		"a sender that may delete": func(ctx context.Context, f *fixture) error {
			r := removal("web", webhook)
			r.Rule = &resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}

			return f.Delete(ctx, f.w, r)
		},
		"a request on NATS": func(ctx context.Context, f *fixture) error {
			r := removal("web", resources.Origin{Source: resources.OriginRequest})
			r.Rule = &resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}

			return f.Delete(ctx, f.w, r)
		},
		"a trigger": func(ctx context.Context, f *fixture) error {
			r := removal("web", resources.Origin{Source: resources.OriginTrigger, Name: "t"})
			r.Rule = &resources.ApplyRule{Kinds: []string{"VM"}, Delete: true}

			return f.Delete(ctx, f.w, r)
		},
		"teardown over gRPC": func(ctx context.Context, f *fixture) error {
			_, err := state.WrapCore(f.Guard(f.State())).Teardown(ctx, vm("web").Metadata())

			return err
		},
		"destroy over gRPC": func(ctx context.Context, f *fixture) error {
			return f.Guard(f.State()).Destroy(ctx, vm("web").Metadata())
		},
	}

	for name, remove := range ways {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.apply(t, store.Change{Object: vm("web", protect), Origin: fileA})

			e := requireReason(t, remove(t.Context(), f), resources.ReasonProtected)
			require.Contains(t, e.Error(), "spec.protect")
			require.Equal(t, resource.PhaseRunning, f.vm(t, "web").Metadata().Phase())
		})
	}
}

func removal(name string, origin resources.Origin) store.Removal {
	kind, _ := resources.KindByName("VM")

	return store.Removal{Kind: kind, Name: name, Origin: origin, Cause: "event-9"}
}

func TestDeleteStartsTheTeardownOnlyForWhoMay(t *testing.T) {
	for name, test := range map[string]struct {
		owner, by resources.Origin
		force     bool
		reason    string
	}{
		"its own file":                   {owner: fileA, by: fileA},
		"another file":                   {owner: fileA, by: fileB, reason: resources.ReasonNotOwned},
		"the API, of a file's object":    {owner: fileA, by: viaAPI, reason: resources.ReasonNotOwned},
		"the API by force":               {owner: fileA, by: viaAPI, force: true},
		"the API, of a sender's object":  {owner: webhook, by: viaAPI},
		"a sender, of the API's object":  {owner: viaAPI, by: webhook, reason: resources.ReasonNotOwned},
		"a sender, of its own object":    {owner: webhook, by: webhook},
		"the API, of its own object":     {owner: viaAPI, by: viaAPI},
		"a sender, of another sender's":  {owner: webhook, by: resources.Origin{Source: resources.OriginWebhook, Name: "x"}, reason: resources.ReasonNotOwned},
		"a trigger, of a file's object ": {owner: fileA, by: resources.Origin{Source: resources.OriginTrigger, Name: "t"}, reason: resources.ReasonNotOwned},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.apply(t, store.Change{Object: vm("web"), Origin: test.owner})

			r := removal("web", test.by)
			r.Force = test.force
			err := f.Delete(t.Context(), f.w, r)

			if test.reason != "" {
				requireReason(t, err, test.reason)
				require.Equal(t, resource.PhaseRunning, f.vm(t, "web").Metadata().Phase())

				return
			}

			require.NoError(t, err)

			md := f.vm(t, "web").Metadata()
			require.Equal(t, resource.PhaseTearingDown, md.Phase())
			require.Equal(t, "event-9", resources.CauseOf(md))
			require.NoError(t, f.Delete(t.Context(), f.w, r), "deleting again is success")
		})
	}

	f := newFixture(t, nil)
	require.NoError(t, f.Delete(t.Context(), f.w, removal("nothing", fileA)), "what is not there is deleted")
}

func TestAnObjectInTeardownIsDeclaredAgainOnlyWhenItIsGone(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})
	uid := resources.UIDOf(f.vm(t, "web").Metadata())
	require.NoError(t, f.Delete(t.Context(), f.w, removal("web", fileA)))

	_, err := f.Apply(t.Context(), f.w, store.Change{Object: vm("web"), Origin: fileA})
	requireReason(t, err, resources.ReasonWaiting)

	require.NoError(t, f.State().Destroy(t.Context(), vm("web").Metadata()))
	require.Equal(t, resources.OutcomeCreated, f.apply(t, store.Change{Object: vm("web"), Origin: fileA}).Outcome)
	require.NotEqual(t, uid, resources.UIDOf(f.vm(t, "web").Metadata()))
}
