package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// eventsReconcile sends one event of each source that has a target, and finds each in the journal and at the VM.
func eventsReconcile(t *testing.T, g *gateway, _ *hypervisor) {
	const target = ", target: {kind: VM, name: web-1}}"

	client := &nats{t: t, url: g.nats}
	_, err := client.run("stream", "add", "OPS", "--subjects", "ops.durable.>", "--defaults")
	require.NoError(t, err)

	g.write("bridge.yaml", documents(
		g.githubHook("deploy", target[:len(target)-1]),
		document("Schedule", "tick", `{cron: "@every 2s"`+target),
		document("Subscription", "core", `{subject: "ops.core.>"`+target),
		document("Subscription", "durable", `{subject: "ops.durable.>", stream: OPS, deliver: all`+target),
	))
	g.routed(t, "deploy")

	t.Run("a wrong signature is 401 and leads to nothing", func(t *testing.T) {
		a := g.deliver(t, "deploy", delivery{id: "forged", body: `{"ref": "refs/heads/main"}`, secret: "guessed"})
		require.Equal(t, 401, a.Code)

		for _, e := range g.events("webhook") {
			require.NotEqual(t, "event", e.Class, "%+v", e)
		}

		require.Zero(t, g.reconciles("webhook"))
	})

	t.Run("a webhook signed as GitHub signs", func(t *testing.T) {
		a := g.deliver(t, "deploy", delivery{id: "d-1", body: `{"ref": "refs/heads/main"}`, secret: githubSecret})
		require.Equal(t, 202, a.Code)
		g.led(t, "webhook", "deploy", a.ID)
	})

	t.Run("a tick of @every 2s", func(t *testing.T) { g.led(t, "schedule", "tick", "") })

	t.Run("a message of core NATS", func(t *testing.T) { g.message(t, client, "core", "ops.core.x") })

	t.Run("a message of JetStream", func(t *testing.T) { g.message(t, client, "durable", "ops.durable.x") })

	g.remove("bridge.yaml")
	eventually(t, "the route is gone", func() error {
		if a := g.deliver(t, "deploy", delivery{id: "d-2", body: `{}`, secret: githubSecret}); a.Code != 404 {
			return fmt.Errorf("it answers %d", a.Code)
		}

		return nil
	})
}

// reconciles returns how many events of a source have led to a reconcile of a VM.
func (g *gateway) reconciles(source string) float64 {
	g.t.Helper()

	return g.metric("gateway_event_to_reconcile_seconds_count", fmt.Sprintf("source=%q", source))
}

// led waits until the journal has an event, of an id where one is given, and a reconcile followed from its source.
func (g *gateway) led(t *testing.T, source, name, id string) {
	t.Helper()

	eventually(t, "an event of "+source+" "+name+" is in `gateway events` and led to a reconcile", func() error {
		if g.reconciles(source) == 0 {
			return fmt.Errorf("no reconcile")
		}

		entries := g.events(source)
		for _, e := range entries {
			if e.Class == "event" && e.Source == source && e.Name == name && (id == "" || e.EventID == id) {
				return nil
			}
		}

		return fmt.Errorf("events: %+v", entries)
	})
}

// message publishes on a subject until a subscription, which may not be there yet, has taken one in.
func (g *gateway) message(t *testing.T, client *nats, name, subject string) {
	t.Helper()

	before := g.reconciles("subscription")

	eventually(t, "a message on "+subject+" led to a reconcile", func() error {
		if _, err := client.run("pub", subject, `{"n": 1}`); err != nil {
			return err
		}

		if g.reconciles("subscription") == before {
			return fmt.Errorf("no reconcile")
		}

		return nil
	})
	g.led(t, "subscription", name, "")
}
