package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Commits that are pushed.
const (
	commitMain = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
	commitSide = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"
)

// mainOnly is a trigger as a person writes it who wants pushes to main, and nothing else, on the VMs of the tier web.
const mainOnly = `apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: main-only}
spec:
  on: {source: webhook, name: deploy}
  when: event.data.ref == "refs/heads/main"
  do:
    - patch: {kind: VM, selector: {tier: web}, merge: {spec: {description: "deployed ${event.data.after}"}}}
    - patch: {kind: VM, name: web-1, merge: {metadata: {labels: {tag: "${event.data.after}"}}}}
    - patch: {kind: VM, name: api-1, merge: {metadata: {labels: {tag: "${event.data.after}"}}}}
    - publish: {subject: "deploys.${event.name}", data: {commit: "${event.data.after}", size: "${event.data.size}"}}
`

// TestBridgeTrigger has a signed push to main change exactly the VMs that a trigger selects, and tell others; a push to
// another branch changes nothing.
func TestBridgeTrigger(t *testing.T) {
	g := newGateway(t, "")
	g.write("lab.yaml", documents(
		document("Host", "a", fmt.Sprintf("{uri: %q}", "sim://a?state="+g.path("domains"))),
		labelled("web-1", "web"), labelled("web-2", "web"), labelled("db-1", "db"), g.githubHook("deploy", "")))
	g.write("trigger.yaml", mainOnly)
	g.start()

	require.NoError(t, os.WriteFile(g.path("api.yaml"), []byte(documents(labelled("api-1", "web"), labelled("api-2", "db"))), 0o600))
	g.cli("apply", "-f", g.path("api.yaml"))

	all := []string{"web-1", "web-2", "db-1", "api-1", "api-2"}
	g.running(all...)
	g.routed(t, "deploy")
	eventually(t, "the trigger is there", func() error { _, err := g.get("Trigger", "main-only"); return err })

	seen := subscribe(t, g.nats, "deploys.>")
	before := map[string]object{}

	for _, name := range all {
		o, err := g.get("VM", name)
		require.NoError(t, err)

		before[name] = o
	}

	t.Run("a push to another branch changes nothing, and `gateway why` says so", func(t *testing.T) {
		defer g.under(t)()

		event := g.push(t, "side-1", "refs/heads/side", commitSide)
		g.whyMentions(t, event, "trigger main-only did not fire")

		for _, name := range all {
			require.Empty(t, g.described(t, name), name)
		}
	})

	t.Run("a push to main changes the VMs that are selected, and no other", func(t *testing.T) {
		defer g.under(t)()

		event := g.push(t, "main-1", "refs/heads/main", commitMain)

		eventually(t, "the VMs of the tier web have the commit", func() error {
			for _, name := range []string{"web-1", "web-2", "api-1"} {
				if got := g.described(t, name); got != "deployed "+commitMain {
					return fmt.Errorf("%s is described as %q", name, got)
				}
			}

			for _, name := range []string{"web-1", "api-1"} {
				if o, err := g.get("VM", name); err != nil || o.Metadata.Labels["tag"] != commitMain {
					return fmt.Errorf("%s has the labels %v: %w", name, o.Metadata.Labels, err)
				}
			}

			return nil
		})
		require.Equal(t, "VM/api-1\nVM/web-1\n", g.cli("get", "vm", "-l", "tag="+commitMain, "-o", "name"), "selectors see the label above a file too")
		g.whyMentions(t, event, "trigger main-only fired", "VM/web-1", "VM/web-2", "VM/api-1")
		g.running(all...)

		msg, err := seen.NextMsg(10 * time.Second)
		require.NoError(t, err)
		require.Equal(t, "deploys.deploy", msg.Subject)
		require.JSONEq(t, `{"commit": "`+commitMain+`", "size": 12345678901234567}`, string(msg.Data))

		// What a file declares is as the file says, below the override; the object of the API is changed itself.
		for name, changed := range map[string]bool{"web-1": false, "web-2": false, "db-1": false, "api-1": true, "api-2": false} {
			o, err := g.get("VM", name)
			require.NoError(t, err)
			require.Equal(t, changed, o.Metadata.Revision != before[name].Metadata.Revision, name)
			require.Equal(t, before[name].Status.DomainUUID, o.Status.DomainUUID, name)
		}

		for _, name := range []string{"db-1", "api-2"} {
			require.Empty(t, g.described(t, name), name)
		}
	})

	t.Run("the branch before it published nothing, and the push only once", func(t *testing.T) {
		_, err := seen.NextMsg(200 * time.Millisecond)
		require.ErrorIs(t, err, natsgo.ErrTimeout)
	})

	t.Run("an unsigned push is not looked at", func(t *testing.T) {
		a := g.deliver(t, "deploy", delivery{id: "forged", body: `{"ref": "refs/heads/main", "after": "` + commitSide + `"}`, secret: "guessed"})
		require.Equal(t, http.StatusUnauthorized, a.Code)
		require.Equal(t, "deployed "+commitMain, g.described(t, "web-1"))
	})

	g.stop()
}

// labelled is the document of a small VM of a tier.
func labelled(name, tier string) string {
	return fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: %s, labels: {tier: %s}}\nspec: {memory: 64MiB}\n", name, tier)
}

// push sends a push as GitHub does, and returns the id of its event.
func (g *gateway) push(t *testing.T, id, ref, after string) string {
	t.Helper()

	body := fmt.Sprintf(`{"ref": %q, "after": %q, "size": 12345678901234567, "repository": {"url": "https://example.org/r"}}`, ref, after)
	a := g.deliver(t, "deploy", delivery{id: id, body: body, secret: githubSecret})
	require.Equal(t, http.StatusAccepted, a.Code)

	return a.ID
}

// described returns the description of a VM's domain: the last one that the simulated host was given.
func (g *gateway) described(t *testing.T, name string) (description string) {
	t.Helper()

	text, err := os.ReadFile(g.path("domains"))
	require.NoError(t, err)

	for line := range strings.Lines(string(text)) {
		var r struct {
			Domain *struct {
				Spec struct{ Name, Description string }
			}
		}

		if json.Unmarshal([]byte(line), &r) != nil {
			continue // being written
		}

		if r.Domain != nil && r.Domain.Spec.Name == name {
			description = r.Domain.Spec.Description
		}
	}

	return description
}

// whyMentions waits until `gateway why event` has all of these words.
func (g *gateway) whyMentions(t *testing.T, event string, words ...string) {
	t.Helper()

	eventually(t, "gateway why event "+event+" says "+strings.Join(words, ", "), func() error {
		out, errs, code := g.run("why", "event", event)
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}

		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("it says %s", out)
			}
		}

		return nil
	})
}

// subscribe listens on a subject, and is there when it returns.
func subscribe(t *testing.T, url, subject string) *natsgo.Subscription {
	t.Helper()

	connection, err := natsgo.Connect(url)
	require.NoError(t, err)
	t.Cleanup(connection.Close)

	subscription, err := connection.SubscribeSync(subject)
	require.NoError(t, err)
	require.NoError(t, connection.Flush())

	return subscription
}
