package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api/apitest"
	"gateway/api/client"
	"gateway/resources"
)

// converged writes the condition of a VM.
func converged(w *apitest.World, name string, revision int64, status resources.ConditionStatus, reason, message string) {
	w.Observe(name, func(s *resources.VMStatusSpec) {
		s.ObservedRevision = revision
		s.Conditions = resources.SetCondition(s.Conditions, resources.Condition{
			Type: resources.ConditionConverged, Status: status, Reason: reason, Message: message,
		}, time.Now())
	})
}

func goal(t *testing.T, kind, name, text string) client.Goal {
	t.Helper()

	g, err := client.ParseGoal(kind, name, text)
	require.NoError(t, err)

	return g
}

func TestGoalsAreReachedOneByOne(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	w.VM("web-2", nil)
	w.VM("old", nil)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	inForce, ok := client.Converged("VM", "web-1", 1)
	require.True(t, ok)

	goals := []client.Goal{
		inForce, goal(t, "VM", "web-2", "state=running"), goal(t, "VM", "new", "condition=converged=False"), goal(t, "VM", "old", "delete"),
		goal(t, "Host", "a", "delete"),
	}

	var waited []string

	unmet, err := w.Client.Await(ctx, goals, func(g client.Goal, reached bool, why string) {
		if reached {
			waited = append(waited, g.String()+" done")

			return
		}

		waited = append(waited, g.String()+": "+why)

		switch g.String() + ": " + why {
		case "VM/new: it does not exist":
			converged(w, "web-1", 1, resources.ConditionFalse, resources.ReasonStarting, "the domain boots")
		case "VM/web-1: Starting: the domain boots":
			converged(w, "web-1", 1, resources.ConditionTrue, resources.ReasonConverged, "")
			w.Observe("web-2", func(s *resources.VMStatusSpec) { s.State = resources.StateStopped })
		case "VM/web-2: its state is stopped":
			w.Observe("web-2", func(s *resources.VMStatusSpec) { s.State = resources.StateRunning })
			require.NoError(t, w.State.Destroy(ctx, resources.NewVMConfig("old").Metadata()))
			w.VM("new", nil)
			converged(w, "new", 1, resources.ConditionFalse, resources.ReasonNoHosts, "")
		}
	})
	require.NoError(t, err)
	require.Empty(t, unmet)

	for _, step := range []string{
		"VM/web-1: nothing is known of it yet", "VM/web-1 done", "VM/web-2 done", "VM/old: it is still there", "VM/old done", "VM/new done", "Host/a done",
	} {
		require.Contains(t, waited, step)
	}
}

func TestWhatIsNotReachedInTimeHasItsReason(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	w.VM("web-2", nil)
	w.VM("old", nil)
	converged(w, "web-1", 1, resources.ConditionFalse, resources.ReasonUnschedulable, "no host fits")
	converged(w, "web-2", 0, resources.ConditionTrue, resources.ReasonConverged, "")
	converged(w, "old", 1, resources.ConditionFalse, resources.ReasonDeleting, "the guest shuts down")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	later, ok := client.Converged("VM", "web-1", 2)
	require.True(t, ok)

	unmet, err := w.Client.Await(ctx, []client.Goal{
		goal(t, "VM", "web-1", "state=running"), goal(t, "VM", "web-2", "condition=Converged"), goal(t, "VM", "nope", "condition=Converged"),
		goal(t, "VM", "old", "delete"),
	}, nil)
	require.NoError(t, err)

	var why []string
	for _, u := range unmet {
		why = append(why, u.String()+": "+u.Why)
	}

	require.Equal(t, []string{
		"VM/web-1: its state is unknown: Unschedulable: no host fits", "VM/web-2: revision 1 is not looked at yet", "VM/nope: it does not exist",
		"VM/old: it is still there: Deleting: the guest shuts down",
	}, why)

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	unmet, err = w.Client.Await(ctx, []client.Goal{later}, nil)
	require.NoError(t, err)
	require.Equal(t, "the new revision is not there yet", unmet[0].Why)
}

func TestAnInterruptedWaitIsAnError(t *testing.T) {
	w := apitest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())

	_, err := w.Client.Await(ctx, []client.Goal{goal(t, "VM", "nope", "state=running")}, func(client.Goal, bool, string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

func TestNetworksAndHostsAreInForceWhenTheyAreReady(t *testing.T) {
	w := apitest.Start(t)
	lan := resources.NewNetwork("lan")
	lan.TypedSpec().Subnet = "10.7.0.0/24"
	w.Declare(lan)

	host := resources.NewHost("a")
	host.TypedSpec().URI = "sim://a"
	w.Declare(host)

	status := resources.NewHostStatus("a")
	status.TypedSpec().Conditions = []resources.Condition{{Type: resources.ConditionConnected, Status: resources.ConditionFalse, Reason: resources.ReasonHostConnecting}}
	status.TypedSpec().ObservedRevision = 1
	require.NoError(t, w.State.Create(t.Context(), status))

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	var goals []client.Goal

	for _, o := range [][2]string{{"Network", "lan"}, {"Host", "a"}} {
		g, ok := client.Converged(o[0], o[1], 1)
		require.True(t, ok)

		goals = append(goals, g)
	}

	unmet, err := w.Client.Await(ctx, goals, nil)
	require.NoError(t, err)
	require.Len(t, unmet, 1)
	require.Equal(t, "Host/a: Connecting", unmet[0].String()+": "+unmet[0].Why)

	_, ok := client.Converged("Webhook", "deploy", 1)
	require.False(t, ok, "it is in force once it is declared")
}

func TestWhatCanNotBeWaitedForIsRefused(t *testing.T) {
	for _, text := range []string{"", "state", "state=", "condition=", "deleted", "jsonpath={.status}"} {
		_, err := client.ParseGoal("VM", "web-1", text)
		require.ErrorContains(t, err, "use condition=TYPE, state=STATE, create or delete", text)
	}
}
