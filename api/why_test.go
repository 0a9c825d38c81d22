package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

// happened is a story of a push: one trigger fired, a VM got a revision and was started, and another VM changed too.
func happened(b *bridge) *resources.VMConfig {
	b.t.Helper()
	b.record(store.ClassEvent, delivery("e1"), "{}", "{}")

	for _, e := range []store.Entry{
		{Class: store.ClassTrigger, Source: "trigger", Name: "main-only", EventID: "e1", Reason: "Fired", Message: "1 actions"},
		{Class: store.ClassTrigger, Source: "trigger", Name: "tags", EventID: "e1", Reason: "NotFired", Message: "when is false: false"},
		{Class: store.ClassRevision, Source: "trigger", Name: "main-only", EventID: "e1", Object: "VM/web-1", Reason: "updated", Message: "revision 2"},
		{Class: store.ClassRevision, Source: "trigger", Name: "main-only", EventID: "e1", Object: "VM/web-2", Reason: "updated", Message: "revision 5"},
		{Class: store.ClassHypervisor, Source: "network", Name: "a", EventID: "e1", Object: "Network/lan", Message: "define network"},
		{Class: store.ClassHypervisor, Source: "network", Name: "a", EventID: "e1", Object: "Network/other", Message: "define network"},
		{Class: store.ClassHypervisor, Source: "vm", Name: "a", EventID: "e1", Object: "VM/web-1", Message: "start"},
	} {
		require.NoError(b.t, b.store.Journal().Append(e))
	}

	vm := resources.NewVMConfig("web-1")
	vm.TypedSpec().Interfaces = []resources.Interface{{Network: "lan"}}
	resources.SetRevision(vm.Metadata(), 2)
	resources.SetCause(vm.Metadata(), "e1")
	b.create(vm)

	status := resources.NewVMStatus("web-1")
	status.TypedSpec().State, status.TypedSpec().Host, status.TypedSpec().Cause = resources.StateRunning, "a", "e1"
	b.create(status)

	b.nats.published = []broker.Published{
		{Subject: "gateway.vm.web-1.status", MessageID: "uid/6", Cause: "e0", Stream: "GATEWAY_STATUS", Sequence: 10, Time: time.Now()},
		{Subject: "gateway.vm.web-1.status", MessageID: "uid/7", Cause: "e1", Stream: "GATEWAY_STATUS", Sequence: 12, Time: time.Now()},
	}

	return vm
}

func steps(c api.Chain) (all []string) {
	for _, s := range c.Steps {
		all = append(all, s.Step+" "+s.Name+" "+s.Object)
	}

	return all
}

func TestWhyAnObjectIsAsItIs(t *testing.T) {
	b := newBridge(t)
	happened(b)

	kind, _ := resources.KindByName("VM")
	story, err := b.WhyObject(t.Context(), kind, "web-1")
	require.NoError(t, err)
	require.Equal(t, "VM/web-1", story.About)
	require.Equal(t, &api.Now{State: "running", Host: "a", Revision: 2, Cause: "e1"}, story.Now)
	require.Len(t, story.Chains, 1)
	require.Equal(t, "e1", story.Chains[0].Cause)
	require.True(t, story.Chains[0].Known)
	require.Equal(t, []string{
		"event deploy VM/old", "trigger main-only ", "trigger tags ", "revision main-only VM/web-1", "hypervisor a Network/lan", "hypervisor a VM/web-1",
		"published gateway.vm.web-1.status VM/web-1",
	}, steps(story.Chains[0]), "of other objects nothing, of its network what was done for it")

	_, err = b.WhyObject(t.Context(), kind, "none")
	require.ErrorContains(t, err, "not found")

	b.nats.err = broker.ErrAway
	story, err = b.WhyObject(t.Context(), kind, "web-1")
	require.NoError(t, err)
	require.Equal(t, broker.ErrAway.Error(), story.NATS)
}

func TestWhyAnObjectIsGone(t *testing.T) {
	b := newBridge(t)
	require.NoError(t, b.store.State().Destroy(t.Context(), happened(b).Metadata()))

	kind, _ := resources.KindByName("VM")
	story, err := b.WhyObject(t.Context(), kind, "web-1")
	require.NoError(t, err)
	require.True(t, story.Now.Deleted)
	require.Len(t, story.Chains, 1)
}

func TestWhatAnEventLedTo(t *testing.T) {
	b := newBridge(t)
	happened(b)
	b.webhook("deploy", nil)

	story, err := b.WhyEvent(t.Context(), "e1")
	require.NoError(t, err)
	require.Nil(t, story.Now)
	require.Len(t, story.Chains, 1)
	require.Contains(t, steps(story.Chains[0]), "revision main-only VM/web-2")
	require.Contains(t, steps(story.Chains[0]), "published gateway.vm.web-1.status VM/web-1")
	require.Contains(t, story.Chains[0].Steps[0].Message, "com.github.push refs/heads/main")

	replayed, err := b.Replay(t.Context(), b.by, "e1")
	require.NoError(t, err)

	story, err = b.WhyEvent(t.Context(), replayed.As)
	require.NoError(t, err)
	require.Len(t, story.Chains, 2, "what it is a replay of comes first")
	require.Equal(t, "e1", story.Chains[0].Cause)
	require.Contains(t, steps(story.Chains[0]), "command replay Event/e1")
	require.Equal(t, "e1", story.Chains[1].Before)

	_, err = b.WhyEvent(t.Context(), "none")
	require.ErrorContains(t, err, "not found")
}

func TestACommandIsACauseThatCanBeAskedFor(t *testing.T) {
	b := newBridge(t)
	vm := resources.NewVMConfig("web-1")

	documents, err := config.DecodeJSON("-", []byte(`{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": "web-1"}, "spec": {}}`))
	require.NoError(t, err)

	_, err = b.Apply(t.Context(), b.by, "-", documents, false)
	require.NoError(t, err)

	r, err := b.store.State().Get(t.Context(), vm.Metadata())
	require.NoError(t, err)
	require.Equal(t, b.by.ID, resources.CauseOf(r.Metadata()))

	story, err := b.WhyEvent(t.Context(), b.by.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"command apply -", "revision  VM/web-1"}, steps(story.Chains[0]))
	require.Equal(t, "user:ada (pid 7)", story.Chains[0].Steps[0].Peer)
}
