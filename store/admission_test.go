package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/store"
)

var (
	fileA   = resources.Origin{Source: resources.OriginFile, Name: "/docs/a.yaml", Root: "/docs"}
	fileB   = resources.Origin{Source: resources.OriginFile, Name: "/docs/b.yaml", Root: "/docs"}
	viaAPI  = resources.Origin{Source: resources.OriginAPI}
	webhook = resources.Origin{Source: resources.OriginWebhook, Name: "inbox"}
)

// fixture is an admission layer over a memory store.
type fixture struct {
	store.Store

	*store.Admission

	w store.Writer
}

func newFixture(t *testing.T, policy store.Policy) *fixture {
	t.Helper()

	s := store.NewMemory("test")

	// A controller writes with its name as owner; declared objects must have none all the same.
	return &fixture{Store: s, Admission: store.NewAdmission(policy, s.Journal()), w: owned.New(s.State(), resources.ControllerDocuments)}
}

func (f *fixture) apply(t *testing.T, c store.Change) resources.AppliedObject {
	t.Helper()

	done, err := f.Apply(t.Context(), f.w, c)
	require.NoError(t, err)

	return done
}

func (f *fixture) vm(t *testing.T, name string) *resources.VMConfig {
	t.Helper()

	r, err := f.State().Get(t.Context(), resources.NewVMConfig(name).Metadata())
	require.NoError(t, err)

	return r.(*resources.VMConfig)
}

// requireReason requires an AdmissionError with the reason, and returns it.
func requireReason(t *testing.T, err error, reason string) *store.AdmissionError {
	t.Helper()

	var e *store.AdmissionError

	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason, e.Error())

	return e
}

func vm(name string, change ...func(*resources.VMConfigSpec)) *resources.VMConfig {
	r := resources.NewVMConfig(name)
	for _, f := range change {
		f(r.TypedSpec())
	}

	return r
}

func cpus(n int) func(*resources.VMConfigSpec) {
	return func(s *resources.VMConfigSpec) { s.CPUs = n }
}

func protect(s *resources.VMConfigSpec) { s.Protect = true }

func TestApplyCreatesChangesAndLeavesAlone(t *testing.T) {
	f := newFixture(t, nil)

	done := f.apply(t, store.Change{Object: vm("web"), Origin: fileA, Cause: "event-1"})
	require.Equal(t, resources.AppliedObject{Kind: "VM", Name: "web", Outcome: resources.OutcomeCreated, Revision: 1}, done)

	created := f.vm(t, "web").Metadata()
	uid := resources.UIDOf(created)
	require.NotEmpty(t, uid)
	require.Empty(t, created.Owner(), "the generic destroy controller passes over owned objects")
	require.Equal(t, fileA, resources.OriginOf(created))
	require.Equal(t, "event-1", resources.CauseOf(created))

	done = f.apply(t, store.Change{Object: vm("web", cpus(4)), Origin: fileA, Cause: "event-2"})
	require.Equal(t, resources.OutcomeUpdated, done.Outcome)
	require.Equal(t, int64(2), done.Revision)

	changed := f.vm(t, "web")
	require.Equal(t, 4, changed.TypedSpec().CPUs)
	require.Equal(t, uid, resources.UIDOf(changed.Metadata()))
	require.Equal(t, "event-2", resources.CauseOf(changed.Metadata()))
}

func TestCaseS29TheSameAgainWritesNothing(t *testing.T) {
	f := newFixture(t, nil)

	declare := func() resource.Resource {
		r := vm("web", func(s *resources.VMConfigSpec) { s.Disks = []resources.Disk{} })
		r.Metadata().Labels().Set("tier", "web")
		r.Metadata().Annotations().Set("note", "mine")

		return r
	}

	f.apply(t, store.Change{Object: declare(), Origin: fileA, Cause: "event-1"})
	before := f.vm(t, "web").Metadata().Version()

	done := f.apply(t, store.Change{Object: declare(), Origin: fileA, Cause: "event-2"})
	require.Equal(t, resources.OutcomeUnchanged, done.Outcome)
	require.Equal(t, before, f.vm(t, "web").Metadata().Version())
	require.Equal(t, "event-1", resources.CauseOf(f.vm(t, "web").Metadata()))
}

func TestRevisionRisesOnlyWithSpecOrLabels(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})

	annotated := vm("web")
	annotated.Metadata().Annotations().Set("note", "mine")
	require.Equal(t, int64(1), f.apply(t, store.Change{Object: annotated, Origin: fileA}).Revision)
	require.Equal(t, map[string]string{"note": "mine"}, resources.UserAnnotations(f.vm(t, "web").Metadata()))

	labelled := vm("web")
	labelled.Metadata().Labels().Set("tier", "web")
	require.Equal(t, int64(2), f.apply(t, store.Change{Object: labelled, Origin: fileA}).Revision)

	require.NoError(t, f.State().AddFinalizer(t.Context(), annotated.Metadata(), "vm"))
	require.Equal(t, int64(2), resources.RevisionOf(f.vm(t, "web").Metadata()))
}

func TestReservedAnnotationsOfADeclarerAreIgnored(t *testing.T) {
	f := newFixture(t, nil)

	forged := vm("web")
	resources.SetOrigin(forged.Metadata(), fileB)
	resources.SetUID(forged.Metadata(), "mine")
	resources.SetRevision(forged.Metadata(), 99)

	f.apply(t, store.Change{Object: forged, Origin: fileA})

	md := f.vm(t, "web").Metadata()
	require.Equal(t, fileA, resources.OriginOf(md))
	require.NotEqual(t, "mine", resources.UIDOf(md))
	require.Equal(t, int64(1), resources.RevisionOf(md))
}

func TestCaseV2TheFirstDeclarationKeepsTheObjectAndTheSecondNamesBothPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		first, second resources.Origin
		reason        string
		named         []string
	}{
		"two files":                     {fileA, fileB, resources.ReasonConflict, []string{"/docs/a.yaml", "/docs/b.yaml"}},
		"a file and then a webhook":     {fileA, webhook, resources.ReasonConflict, []string{"/docs/a.yaml", "webhook:inbox"}},
		"the API and then a file":       {viaAPI, fileA, resources.ReasonConflict, []string{"api", "/docs/a.yaml"}},
		"a webhook and then the API":    {webhook, viaAPI, resources.ReasonConflict, []string{"webhook:inbox", "api"}},
		"a file and then an API change": {fileA, viaAPI, resources.ReasonNotOwned, []string{"/docs/a.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.apply(t, store.Change{Object: vm("web"), Origin: test.first})

			done, err := f.Apply(t.Context(), f.w, store.Change{Object: vm("web", cpus(8)), Origin: test.second})
			e := requireReason(t, err, test.reason)

			for _, place := range test.named {
				require.Contains(t, e.Error(), place)
			}

			require.Equal(t, resources.OutcomeConflict, done.Outcome)
			require.True(t, e.Owner.Same(test.first))
			require.Equal(t, 1, f.vm(t, "web").TypedSpec().CPUs)
		})
	}
}

func TestTakeFromMovesOwnershipWithoutANewRevision(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})

	_, err := f.Apply(t.Context(), f.w, store.Change{Object: vm("web"), Origin: fileB, TakeFrom: webhook})
	requireReason(t, err, resources.ReasonConflict)

	done := f.apply(t, store.Change{Object: vm("web"), Origin: fileB, TakeFrom: fileA})
	require.Equal(t, int64(1), done.Revision)
	require.Equal(t, fileB, resources.OriginOf(f.vm(t, "web").Metadata()))
}

func TestCaseV7NamesAreRefusedAlikeFromEveryOrigin(t *testing.T) {
	f := newFixture(t, nil)

	for _, name := range []string{"../x", "a/b", ".", "é", "a\x00b", strings.Repeat("a", 64), "Web", ""} {
		messages := map[string]bool{}

		for _, origin := range []resources.Origin{fileA, viaAPI, webhook, {Source: resources.OriginSubscription, Name: "s"}} {
			done, err := f.Apply(t.Context(), f.w, store.Change{Object: vm(name), Origin: origin})
			e := requireReason(t, err, resources.ReasonInvalid)
			messages[e.Message] = true

			require.Equal(t, resources.OutcomeRefused, done.Outcome)
			require.NotContains(t, e.Error(), "\x00")
		}

		guarded := state.WrapCore(f.Guard(f.State()))
		messages[requireReason(t, guarded.Create(t.Context(), vm(name)), resources.ReasonInvalid).Message] = true
		require.Len(t, messages, 1, "%q is refused in different words", name)
	}
}

func TestCaseV9AStaleRevisionIsAConflictThatCarriesTheCurrentOne(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})
	f.apply(t, store.Change{Object: vm("web", cpus(2)), Origin: fileA})

	_, err := f.Apply(t.Context(), f.w, store.Change{Object: vm("web", cpus(3)), Origin: fileA, ExpectRevision: 1})
	e := requireReason(t, err, resources.ReasonStaleRevision)
	require.Equal(t, int64(2), e.Revision)
	require.Contains(t, e.Error(), "2")

	f.apply(t, store.Change{Object: vm("web", cpus(3)), Origin: fileA, ExpectRevision: 2})

	_, err = f.Apply(t.Context(), f.w, store.Change{Object: vm("new"), Origin: fileA, ExpectRevision: 1})
	requireReason(t, err, resources.ReasonStaleRevision)
}

func TestSendersDeclareOnlyWhatTheirRuleAllows(t *testing.T) {
	network := resources.NewNetwork("lan")
	network.TypedSpec().Subnet = "10.7.0.0/24"

	rule := &resources.ApplyRule{Kinds: []string{"VM", "Network"}, Names: "ci-*"}

	for name, test := range map[string]struct {
		object  resource.Resource
		origin  resources.Origin
		rule    *resources.ApplyRule
		refused string
	}{
		"a file declares a network":                    {object: network, origin: fileA},
		"the API declares a network":                   {object: network, origin: viaAPI},
		"a sender without a rule declares a VM":        {object: vm("web"), origin: webhook},
		"a sender without a rule declares a network":   {object: network, origin: webhook, refused: "may not declare a Network"},
		"a sender declares a name that is not allowed": {object: vm("web"), origin: webhook, rule: rule, refused: "ci-*"},
		"a sender declares a name that is allowed":     {object: vm("ci-1"), origin: webhook, rule: rule},
		"a sender declares a kind that is not listed":  {object: network, origin: webhook, rule: &resources.ApplyRule{Kinds: []string{"VM"}}, refused: "apply.kinds"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			_, err := f.Apply(t.Context(), f.w, store.Change{Object: test.object, Origin: test.origin, Rule: test.rule})

			if test.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.refused)
			}
		})
	}
}

func TestChangesThatWouldLoseDataAreRefused(t *testing.T) {
	disk := func(size resources.Size, image string) func(*resources.VMConfigSpec) {
		return func(s *resources.VMConfigSpec) {
			s.Disks = []resources.Disk{{Name: "root", Size: size, Image: image, OnDelete: resources.OnDeleteKeep}}
		}
	}

	network := func(mode, subnet string) *resources.Network {
		n := resources.NewNetwork("lan")
		n.TypedSpec().Mode, n.TypedSpec().Subnet = mode, subnet

		return n
	}

	for name, test := range map[string]struct {
		was, now resource.Resource
		field    string
	}{
		"a disk shrinks":          {vm("web", disk(2*resources.GiB, "a")), vm("web", disk(resources.GiB, "a")), "spec.disks[0].size"},
		"a disk grows":            {vm("web", disk(resources.GiB, "a")), vm("web", disk(2*resources.GiB, "a")), ""},
		"a disk changes image":    {vm("web", disk(resources.GiB, "a")), vm("web", disk(resources.GiB, "b")), "spec.disks[0].image"},
		"a network changes mode":  {network("nat", "10.7.0.0/24"), network("isolated", "10.7.0.0/24"), "spec.mode"},
		"a network changes range": {network("nat", "10.7.0.0/24"), network("nat", "10.8.0.0/24"), "spec.subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.apply(t, store.Change{Object: test.was, Origin: fileA})

			_, err := f.Apply(t.Context(), f.w, store.Change{Object: test.now, Origin: fileA})
			if test.field == "" {
				require.NoError(t, err)

				return
			}

			require.Contains(t, requireReason(t, err, resources.ReasonImmutable).Error(), test.field)
		})
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	f := newFixture(t, nil)

	require.Equal(t, resources.OutcomeCreated, f.apply(t, store.Change{Object: vm("web"), Origin: fileA, DryRun: true}).Outcome)

	_, err := f.State().Get(t.Context(), vm("web").Metadata())
	require.True(t, state.IsNotFoundError(err))

	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})
	done := f.apply(t, store.Change{Object: vm("web", cpus(2)), Origin: fileA, DryRun: true})
	require.Equal(t, resources.OutcomeUpdated, done.Outcome)
	require.Equal(t, 1, f.vm(t, "web").TypedSpec().CPUs)
}

// refuseAll is a policy that nothing passes.
type refuseAll struct{}

func (refuseAll) Check(resource.Resource) resources.FieldErrors {
	return resources.FieldErrors{{Path: "spec.uri", Message: "is not allowed"}}
}

func TestPolicyHoldsEveryOrigin(t *testing.T) {
	f := newFixture(t, refuseAll{})

	for _, origin := range []resources.Origin{fileA, viaAPI, webhook} {
		_, err := f.Apply(t.Context(), f.w, store.Change{Object: vm("web"), Origin: origin})
		require.Contains(t, requireReason(t, err, resources.ReasonPolicyRefused).Error(), "spec.uri")
	}
}

func TestEveryChangeIsInTheJournal(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA, Cause: "event-1"})
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA, Cause: "event-2"})
	f.apply(t, store.Change{Object: vm("web", cpus(2)), Origin: fileA, Cause: "event-3"})

	forced := removal("web", viaAPI)
	forced.Force = true
	require.NoError(t, f.Delete(t.Context(), f.w, forced))

	entries, err := f.Journal().Query(t.Context(), store.Query{Object: "VM/web"})
	require.NoError(t, err)

	var got []string
	for _, e := range entries {
		got = append(got, string(e.Class)+" "+e.Source+" "+e.Reason+" "+e.EventID)
	}

	require.Equal(t, []string{
		"revision file created event-1",
		"revision file updated event-3",
		"revision api deleted event-9",
		"forced api deleted event-9",
	}, got)
}

// racing writes to the object between what the admission reads and what it writes, a number of times.
type racing struct {
	store.Writer

	st    state.State
	races int
}

func (r *racing) Get(ctx context.Context, ptr resource.Pointer, opts ...state.GetOption) (resource.Resource, error) {
	got, err := r.Writer.Get(ctx, ptr, opts...)

	if r.races > 0 {
		r.races--

		_, raced := r.st.UpdateWithConflicts(ctx, ptr, func(r resource.Resource) error {
			r.Metadata().Annotations().Set("raced", r.Metadata().Version().String())

			return nil
		})
		err = errors.Join(err, raced)
	}

	return got, err
}

func TestALostRaceIsTriedAgainButNotForEver(t *testing.T) {
	f := newFixture(t, nil)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})

	w := &racing{Writer: f.w, st: f.State(), races: 3}
	_, err := f.Apply(t.Context(), w, store.Change{Object: vm("web", cpus(2)), Origin: fileA})
	require.NoError(t, err)
	require.Equal(t, 2, f.vm(t, "web").TypedSpec().CPUs)

	w.races = 1000
	_, err = f.Apply(t.Context(), w, store.Change{Object: vm("web", cpus(3)), Origin: fileA})
	require.ErrorContains(t, err, "changed in between")
}

func TestANewObjectHasTheFinalizersOfThoseWhoHoldEveryOneOfItsKind(t *testing.T) {
	f := newFixture(t, nil)
	f.Hold("VM", resources.ControllerVM, resources.ControllerNetwork)
	f.apply(t, store.Change{Object: vm("web"), Origin: fileA})

	network := resources.NewNetwork("lan")
	network.TypedSpec().Subnet = "10.7.0.0/24"
	f.apply(t, store.Change{Object: network, Origin: fileA})
	require.ElementsMatch(t, []string{resources.ControllerVM, resources.ControllerNetwork}, *f.vm(t, "web").Metadata().Finalizers())

	// A change puts none on that was taken off.
	require.NoError(t, f.State().RemoveFinalizer(t.Context(), vm("web").Metadata(), resources.ControllerVM))

	changed := vm("web")
	changed.TypedSpec().CPUs = 3
	f.apply(t, store.Change{Object: changed, Origin: fileA})
	require.Equal(t, resource.Finalizers{resources.ControllerNetwork}, *f.vm(t, "web").Metadata().Finalizers())

	lan, err := f.State().Get(t.Context(), resources.NewNetwork("lan").Metadata())
	require.NoError(t, err)
	require.True(t, lan.Metadata().Finalizers().Empty())
}
