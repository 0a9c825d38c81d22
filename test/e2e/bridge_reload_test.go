package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestBridgeSourcesReload adds, changes and removes a document of each source, and of a trigger, while the gateway runs:
// each is in force without a restart.
func TestBridgeSourcesReload(t *testing.T) {
	g := newGateway(t, "")
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{memory: 64MiB}")))
	g.start()
	g.running("web-1")

	pid := g.pid()

	for name, test := range map[string]func(*gateway, *testing.T){
		"Webhook": (*gateway).reloadWebhook, "Schedule": (*gateway).reloadSchedule,
		"Subscription": (*gateway).reloadSubscription, "Trigger": (*gateway).reloadTrigger,
	} {
		t.Run(name, func(t *testing.T) {
			defer g.under(t)()
			test(g, t)
		})
	}

	require.Equal(t, pid, g.pid())
	require.True(t, g.alive())
	g.stop()
}

// answers waits until a delivery is answered so.
func (g *gateway) answers(t *testing.T, route, secret string, code int) {
	t.Helper()

	eventually(t, fmt.Sprintf("%s is answered with %d", route, code), func() error {
		a, err := post(t.Context(), g.http, route, delivery{body: "{}", secret: secret})
		if err == nil && a.Code != code {
			err = fmt.Errorf("it is answered with %d", a.Code)
		}

		return err
	})
}

func (g *gateway) reloadWebhook(t *testing.T) {
	hook := func(secret, rest string) string {
		return document("Webhook", "reload", fmt.Sprintf("{auth: {github: {secretFiles: [%s]}}%s}", secret, rest))
	}

	g.answers(t, "reload", "one", http.StatusNotFound)

	first, second := g.secret("first", "one"), g.secret("second", "two")
	g.write("webhook.yaml", hook(first, ""))
	g.answers(t, "reload", "one", http.StatusAccepted)
	g.answers(t, "reload", "two", http.StatusUnauthorized)

	g.write("webhook.yaml", hook(second, ""))
	g.answers(t, "reload", "two", http.StatusAccepted)
	g.answers(t, "reload", "one", http.StatusUnauthorized)

	// The secret itself is no document; it is read again all the same.
	g.secret("second", "three")
	g.answers(t, "reload", "three", http.StatusAccepted)
	g.answers(t, "reload", "two", http.StatusUnauthorized)

	g.write("webhook.yaml", hook(second, ", content: form"))
	g.answers(t, "reload", "three", http.StatusUnsupportedMediaType)

	// What is wrong leaves what is in force.
	g.write("webhook.yaml", hook(second, ", nonsense: true"))
	eventually(t, "the file's status says what is wrong", func() error {
		if out := g.cli("get", "files", "-o", "json"); !strings.Contains(out, "nonsense") {
			return fmt.Errorf("it says %s", out)
		}

		return nil
	})
	g.answers(t, "reload", "three", http.StatusUnsupportedMediaType)

	g.remove("webhook.yaml")
	g.answers(t, "reload", "three", http.StatusNotFound)
}

// scheduleStatus is what the test reads of a schedule.
type scheduleStatus struct {
	Status struct {
		Next []time.Time `json:"next"`
		Last []time.Time `json:"last"`
	} `json:"status"`
}

// schedule waits until the status of a schedule is as it should be.
func (g *gateway) schedule(t *testing.T, what string, check func(scheduleStatus) bool) {
	t.Helper()

	eventually(t, what, func() error {
		out, errs, code := g.run("get", "Schedule", "reload", "-o", "json")
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}

		var s scheduleStatus
		if err := json.Unmarshal([]byte(out), &s); err != nil || !check(s) {
			return fmt.Errorf("%s: %w", out, err)
		}

		return nil
	})
}

func (g *gateway) reloadSchedule(t *testing.T) {
	g.write("schedule.yaml", document("Schedule", "reload", `{cron: "@every 1s", target: {kind: VM, name: web-1}}`))
	g.schedule(t, "it ran twice", func(s scheduleStatus) bool { return len(s.Status.Last) >= 2 })

	g.write("schedule.yaml", document("Schedule", "reload", `{cron: "0 0 29 2 *", timezone: UTC, target: {kind: VM, name: web-1}}`))
	g.schedule(t, "it runs in a leap year next", func(s scheduleStatus) bool {
		return len(s.Status.Next) > 0 && s.Status.Next[0].Month() == time.February && s.Status.Next[0].Day() == 29
	})

	ticks := len(g.events("schedule"))

	pass(t, 2*time.Second)
	require.Len(t, g.events("schedule"), ticks, "ticks of a schedule that was changed to one that runs in years")

	g.write("schedule.yaml", document("Schedule", "reload", `{cron: "@every 1s", target: {kind: VM, name: web-1}}`))
	eventually(t, "it runs again", func() error {
		if len(g.events("schedule")) == ticks {
			return fmt.Errorf("%d ticks", ticks)
		}

		return nil
	})

	g.remove("schedule.yaml")
	g.none("Schedule")
	pass(t, time.Second)

	ticks = len(g.events("schedule"))

	pass(t, 2*time.Second)
	require.Len(t, g.events("schedule"), ticks, "ticks of a schedule that was removed")
}

// messages counts the events of a subscription by the subject that they came on.
func (g *gateway) messages(name string) map[string]int {
	count := map[string]int{}

	for _, e := range g.events("subscription") {
		if e.Class == "event" && e.Name == name {
			count[e.Message]++
		}
	}

	return count
}

// heard publishes to a subject until a subscription has an event of it.
func (g *gateway) heard(t *testing.T, publisher *natsgo.Conn, name, subject string) {
	t.Helper()

	eventually(t, name+" hears "+subject, func() error {
		require.NoError(t, publisher.Publish(subject, []byte("{}")))

		if count := g.messages(name); count[subject] == 0 {
			return fmt.Errorf("it heard %v", count)
		}

		return nil
	})
}

func (g *gateway) reloadSubscription(t *testing.T) {
	publisher, err := natsgo.Connect(g.nats)
	require.NoError(t, err)
	defer publisher.Close()

	// The other one is never changed: what came before what it hears was there to be heard.
	g.write("subscription.yaml", document("Subscription", "reload", "{subject: reload.a}"))
	g.write("other.yaml", document("Subscription", "other", `{subject: "reload.>"}`))
	g.heard(t, publisher, "reload", "reload.a")
	g.heard(t, publisher, "other", "reload.begin")

	g.write("subscription.yaml", document("Subscription", "reload", "{subject: reload.b}"))
	g.heard(t, publisher, "reload", "reload.b")

	before := g.messages("reload")

	require.NoError(t, publisher.Publish("reload.a", []byte("{}")))
	g.heard(t, publisher, "other", "reload.changed")
	require.Equal(t, before["reload.a"], g.messages("reload")["reload.a"], "messages on the subject of before")

	g.remove("subscription.yaml")
	eventually(t, "the subscription is gone", func() error {
		if _, err := g.get("Subscription", "reload"); err == nil {
			return fmt.Errorf("it is there")
		}

		return nil
	})

	round := 0

	eventually(t, "nobody hears what the subscription heard", func() error {
		round++
		before = g.messages("reload")

		require.NoError(t, publisher.Publish("reload.b", []byte("{}")))
		g.heard(t, publisher, "other", fmt.Sprintf("reload.removed.%d", round))

		if now := g.messages("reload"); now["reload.b"] != before["reload.b"] {
			return fmt.Errorf("it heard %v", now)
		}

		return nil
	})
	g.remove("other.yaml")
}

func (g *gateway) reloadTrigger(t *testing.T) {
	publishing := func(subject string) string {
		return document("Trigger", "reload", fmt.Sprintf("{on: {source: webhook, name: fire}, do: [{publish: {subject: %s}}]}", subject))
	}

	seen := subscribe(t, g.nats, "fired.>")
	fired := func(subject string) {
		t.Helper()

		eventually(t, "a delivery leads to a message on "+subject, func() error {
			a, err := post(t.Context(), g.http, "fire", delivery{body: "{}", secret: githubSecret})
			if err != nil || a.Code != http.StatusAccepted {
				return fmt.Errorf("%d: %w", a.Code, err)
			}

			msg, err := seen.NextMsg(time.Second)
			if err == nil && msg.Subject != subject {
				err = fmt.Errorf("it is on %s", msg.Subject)
			}

			return err
		})
	}

	g.write("hook.yaml", g.githubHook("fire", ""))
	g.write("trigger.yaml", publishing("fired.one"))
	g.routed(t, "fire")
	fired("fired.one")

	g.write("trigger.yaml", publishing("fired.two"))
	fired("fired.two")

	g.remove("trigger.yaml")
	g.none("Trigger")

	for {
		if _, err := seen.NextMsg(500 * time.Millisecond); err != nil {
			break // nothing is under way any more
		}
	}

	g.answers(t, "fire", githubSecret, http.StatusAccepted)

	_, err := seen.NextMsg(500 * time.Millisecond)
	require.ErrorIs(t, err, natsgo.ErrTimeout, "a message of a trigger that was removed")
	g.remove("hook.yaml")
}
