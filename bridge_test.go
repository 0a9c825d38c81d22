package gateway_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"gateway"
	"gateway/api"
	"gateway/api/client"
	"gateway/config"
	"gateway/resources"
)

// bridge is a gateway with its ways in and out.
type bridge struct {
	t      *testing.T
	g      *gateway.Gateway
	client *client.Client
	nats   *nats.Conn
}

const (
	bridgeSecret = "for tests"
	// bridgeDocuments are a route with two triggers, and an inbox whose documents are applied.
	bridgeDocuments = `
---
apiVersion: gateway/v1alpha1
kind: VM
metadata: {name: web-1, labels: {tier: web}}
spec: {memory: 128MiB}
---
apiVersion: gateway/v1alpha1
kind: Webhook
metadata: {name: deploy}
spec: {auth: {github: {secretFiles: [SECRET]}}}
---
apiVersion: gateway/v1alpha1
kind: Webhook
metadata: {name: inbox}
spec: {auth: {github: {secretFiles: [SECRET]}}, apply: {kinds: [VM], names: "ci-*"}}
---
apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: main-only}
spec:
  on: {source: webhook, name: deploy}
  when: event.data.ref == "refs/heads/main"
  do:
    - patch: {kind: VM, name: web-1, merge: {spec: {description: "at ${event.data.after}"}}}
    - publish: {subject: deploys.seen}
---
apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: tags}
spec:
  on: {source: webhook, name: deploy}
  when: event.data.ref.startsWith("refs/tags/")
  do: [{sync: {kind: VM, selector: {}}}]
`
)

func startBridge(t *testing.T) *bridge {
	t.Helper()

	dir, err := os.MkdirTemp("", "gw") // the test's own has a path that is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	t.Setenv("RUNTIME_DIRECTORY", "")

	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		return path
	}

	secret, token := write("secrets/github", bridgeSecret), write("secrets/nats", bridgeSecret)
	write("documents.d/all.yaml", strings.ReplaceAll(host, "NAME", strings.ToLower(filepath.Base(dir)))+strings.ReplaceAll(bridgeDocuments, "SECRET", secret))

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())

	cfg := config.Default()
	cfg.Documents, cfg.DataDir = []string{filepath.Join(dir, "documents.d")}, filepath.Join(dir, "data")
	cfg.HTTP.Listen, cfg.NATS.Embedded.Listen, cfg.NATS.Embedded.TokenFile = "127.0.0.1:0", free.Addr().String(), token
	cfg.Policy.SecretPaths = []string{filepath.Join(dir, "secrets")}

	b := &bridge{t: t}
	b.g, err = gateway.New(cfg, gateway.WithLogger(zaptest.NewLogger(t)), gateway.WithVersion("v1.2.3"))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- b.g.Run(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	b.client, err = client.New("unix://" + filepath.Join(dir, "data", api.SocketName))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)

	eventually(t, "NATS answers", func() bool {
		b.nats, err = nats.Connect("nats://"+free.Addr().String(), nats.Token(bridgeSecret))

		return err == nil
	})
	t.Cleanup(b.nats.Close)

	return b
}

// send posts a body signed as GitHub signs, and returns the event's id.
func (b *bridge) send(route, delivery, body string) (id string) {
	b.t.Helper()

	mac := hmac.New(sha256.New, []byte(bridgeSecret))
	mac.Write([]byte(body))

	eventually(b.t, "the delivery is taken in", func() bool {
		request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://"+b.g.HTTPAddr()+"/hooks/"+route, strings.NewReader(body))
		require.NoError(b.t, err)

		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": delivery,
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
		} {
			request.Header.Set(name, value)
		}

		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close() //nolint:errcheck // read below

		var answer struct{ ID string }

		if response.StatusCode != http.StatusAccepted || json.NewDecoder(response.Body).Decode(&answer) != nil {
			return false // the route is not in the table yet
		}

		id = answer.ID

		return true
	})

	return id
}

// chainHas reports whether the last chain of an event's story has a step.
func (b *bridge) chainHas(id, step, name, reason string) bool {
	story, err := b.client.WhyEvent(b.t.Context(), id)
	if err != nil || len(story.Chains) == 0 {
		return false
	}

	for _, s := range story.Chains[len(story.Chains)-1].Steps {
		if s.Step == step && strings.Contains(s.Name, name) && strings.Contains(s.Reason, reason) {
			return true
		}
	}

	return false
}

func TestTheStoryOfAPushGoesFromTheDeliveryToWhatWasPublished(t *testing.T) {
	b := startBridge(t)
	eventually(t, "the VM runs", func() bool { return stateOf(t, b.g, "web-1") == resources.StateRunning })

	id := b.send("deploy", "d-1", `{"ref": "refs/heads/main", "after": "59b20b8"}`)

	eventually(t, "the whole story", func() bool {
		return b.chainHas(id, "trigger", "main-only", "Fired") && b.chainHas(id, "trigger", "tags", "NotFired") && b.chainHas(id, "revision", "main-only", "overridden") &&
			b.chainHas(id, "published", "trigger:main-only", "") && b.chainHas(id, "published", "gateway.vm.web-1.status", "")
	})

	story, err := b.client.Why(t.Context(), "VM", "web-1")
	require.NoError(t, err)
	require.Empty(t, story.NATS)
	require.True(t, slices.ContainsFunc(story.Chains, func(c api.Chain) bool { return c.Cause == id }))

	replayed, err := b.client.Replay(t.Context(), id)
	require.NoError(t, err)
	eventually(t, "the triggers look at the replay too", func() bool { return b.chainHas(replayed.As, "trigger", "main-only", "Fired") })

	again, err := b.client.WhyEvent(t.Context(), replayed.As)
	require.NoError(t, err)
	require.Len(t, again.Chains, 2)
}

func TestADeadLetterIsSeenReplayedAndPurgedHereAndOnNATS(t *testing.T) {
	b := startBridge(t)
	refused := `{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": "prod-1"}, "spec": {}}`
	id := b.send("inbox", "d-1", refused)

	var letters api.DeadLetters

	eventually(t, "the letter is listed, and published", func() bool {
		var err error
		letters, err = b.client.DeadLetters(t.Context(), "", "")

		return err == nil && len(letters.Items) == 1 && letters.Items[0].Published
	})
	require.Equal(t, id, letters.Items[0].EventID)
	require.Equal(t, resources.ReasonPolicyRefused, letters.Items[0].Reason)

	done, err := b.client.Redeliver(t.Context(), api.LettersRequest{ID: id})
	require.NoError(t, err)
	require.Len(t, done.Items, 1)

	eventually(t, "it dies again, under the new id", func() bool {
		letters, err = b.client.DeadLetters(t.Context(), "", "")

		return err == nil && len(letters.Items) == 1 && letters.Items[0].EventID == done.Items[0].As && letters.Items[0].Published
	})

	purged, err := b.client.Purge(t.Context(), api.LettersRequest{All: true})
	require.NoError(t, err)
	require.Equal(t, api.Purged{Letters: 1, Published: 1}, purged)

	letters, err = b.client.DeadLetters(t.Context(), "", "")
	require.NoError(t, err)
	require.Empty(t, letters.Items)
}

func TestAVMIsDeclaredByARequestOnNATS(t *testing.T) {
	b := startBridge(t)
	body := []byte(`{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": "asked-1"}, "spec": {"memory": "128MiB"}}`)

	var answer *nats.Msg

	eventually(t, "the request is answered", func() bool {
		var err error
		answer, err = b.nats.Request("gateway.request.apply", body, time.Second)

		return err == nil
	})
	require.Empty(t, answer.Header.Get("Nats-Service-Error-Code"), "%s", answer.Data)
	require.True(t, bytes.Contains(answer.Data, []byte(`"created"`)), "%s", answer.Data)

	eventually(t, "the VM runs", func() bool { return stateOf(t, b.g, "asked-1") == resources.StateRunning })

	story, err := b.client.Why(t.Context(), "VM", "asked-1")
	require.NoError(t, err)
	require.Equal(t, "request", story.Now.Origin)
	require.True(t, strings.HasPrefix(story.Chains[0].Cause, "request-"), story.Chains[0].Cause)
}
