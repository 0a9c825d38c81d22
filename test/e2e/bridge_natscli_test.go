package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBridgeNATSCLI is the official command against the gateway: all that a person without a program of their own does.
func TestBridgeNATSCLI(t *testing.T) {
	need(t, natsCLI)

	g := newGateway(t, "")
	g.config = fmt.Sprintf("nats: {embedded: {listen: 127.0.0.1:0, tokenFile: %s}}", g.secret("token", "s3cr3t-t0ken"))
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), labelled("web-1", "web"),
		document("Subscription", "plain", "{subject: plain.>, target: {kind: VM, name: web-1}}"),
		document("Subscription", "declared", `{subject: "ops.vm.>", stream: OPS, content: json, maxDeliver: 2, apply: {path: data, kinds: [VM], names: "ops-*"}}`)))
	g.start()
	g.running("web-1")

	stranger := &nats{t: t, url: g.nats}
	client := &nats{t: t, url: strings.Replace(g.nats, "nats://", "nats://s3cr3t-t0ken@", 1)}

	for name, test := range map[string]func(*gateway, *testing.T, *nats){
		"publishes to a subscription": (*gateway).cliPublishes, "publishes to a stream, and what is poison is a dead letter": (*gateway).cliStream,
		"requests": (*gateway).cliRequests, "finds the service, and the last status": (*gateway).cliFinds,
	} {
		t.Run(name, func(t *testing.T) {
			defer g.under(t)()
			test(g, t, client)
		})
	}

	t.Run("without the token nothing is let in", func(t *testing.T) {
		_, err := stranger.run("req", "gateway.request.get", `{"kind": "VM", "name": "web-1"}`, "--raw")
		require.Error(t, err)
	})

	require.NotContains(t, g.log.String(), "s3cr3t-t0ken")
	g.stop()
}

// must calls the command and requires that it succeeds.
func (n *nats) must(t *testing.T, args ...string) string {
	t.Helper()

	out, err := n.run(args...)
	require.NoError(t, err)

	return out
}

func (g *gateway) cliPublishes(t *testing.T, client *nats) {
	eventually(t, "a message that is published is an event", func() error {
		client.must(t, "pub", "plain.hello", "anything at all")

		if count := g.messages("plain"); count["plain.hello"] == 0 {
			return fmt.Errorf("there are %v", count)
		}

		return nil
	})
}

func (g *gateway) cliStream(t *testing.T, client *nats) {
	client.must(t, "stream", "add", "OPS", "--subjects", "ops.>", "--defaults")
	eventually(t, "the subscription has its consumer", func() error {
		_, err := client.run("consumer", "info", "OPS", "gateway-declared")

		return err
	})

	vm := `{"data": {"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": %q}, "spec": {"memory": "64MiB"}}}`
	client.must(t, "pub", "ops.vm.add", fmt.Sprintf(vm, "ops-1"), "--jetstream")
	g.running("ops-1")

	// One is no JSON, and is tried as often as it says; the other is, but what it asks for is not allowed.
	client.must(t, "pub", "ops.vm.poison", "{not JSON", "--jetstream")
	client.must(t, "pub", "ops.vm.refused", fmt.Sprintf(vm, "web-1"), "--jetstream")

	letters := ""

	eventually(t, "both are dead letters, with a reason", func() error {
		out, err := client.run("stream", "info", "GATEWAY_DEAD", "--json")
		require.NoError(t, err)

		var info struct {
			State struct {
				Messages int `json:"messages"`
				Last     int `json:"last_seq"`
			} `json:"state"`
		}

		require.NoError(t, json.Unmarshal([]byte(out), &info))

		if info.State.Messages != 2 {
			return fmt.Errorf("there are %d", info.State.Messages)
		}

		for sequence := 1; sequence <= info.State.Last; sequence++ {
			letters += g.letter(t, client, sequence) + "\n"
		}

		return nil
	})

	require.Contains(t, letters, "not acceptable JSON")
	require.Contains(t, letters, "web-1")

	// `stream view` shows the same, on a terminal alone.
	view := client.must(t, "sub", "--stream", "GATEWAY_DEAD", "--all", "--count", "2")
	require.Contains(t, view, "gateway.dead.subscription.declared")
	require.Contains(t, view, "Gateway-Reason")
	require.NotContains(t, view, "{not JSON", "what declares objects is told to nobody")

	// Nothing is left behind, and what came after the poison is done.
	client.must(t, "pub", "ops.vm.add", fmt.Sprintf(vm, "ops-2"), "--jetstream")
	g.running("ops-2")

	var consumer struct {
		Pending int `json:"num_ack_pending"`
		Waiting int `json:"num_pending"`
	}

	eventually(t, "the consumer has nothing left", func() error {
		require.NoError(t, json.Unmarshal([]byte(client.must(t, "consumer", "info", "OPS", "gateway-declared", "--json")), &consumer))

		if consumer.Pending+consumer.Waiting != 0 {
			return fmt.Errorf("%+v", consumer)
		}

		return nil
	})

	require.Contains(t, g.cli("deadletters", "list"), "declared")
}

// letter returns the reason of a dead letter.
func (g *gateway) letter(t *testing.T, client *nats, sequence int) string {
	t.Helper()

	var m struct {
		Subject string `json:"subject"`
		Headers []byte `json:"hdrs"`
	}

	out := client.must(t, "stream", "get", "GATEWAY_DEAD", fmt.Sprint(sequence), "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &m), out)
	require.Equal(t, "gateway.dead.subscription.declared", m.Subject)

	for line := range strings.Lines(string(m.Headers)) {
		if reason, found := strings.CutPrefix(strings.TrimSpace(line), "Gateway-Reason: "); found {
			return reason
		}
	}

	t.Fatalf("a dead letter without a reason: %s", m.Headers)

	return ""
}

// request asks the service, and returns the answer.
func (n *nats) request(t *testing.T, verb, body string) (answer string) {
	t.Helper()

	return n.must(t, "req", "gateway.request."+verb, body, "--raw")
}

func (g *gateway) cliRequests(t *testing.T, client *nats) {
	var o object

	require.NoError(t, json.Unmarshal([]byte(client.request(t, "get", `{"kind": "VM", "name": "web-1"}`)), &o))
	require.Equal(t, "running", o.Status.State)

	asked, err := g.get("VM", "web-1")
	require.NoError(t, err)
	require.Equal(t, asked.Metadata, o.Metadata)

	var list struct {
		Items []object `json:"items"`
	}

	require.NoError(t, json.Unmarshal([]byte(client.request(t, "get", `{"kind": "vms", "selector": {"tier": "web"}}`)), &list))
	require.Len(t, list.Items, 1)

	// YAML, as it stands in a file.
	client.request(t, "apply", documents(labelled("asked-1", "web"), labelled("asked-2", "web")))
	g.running("asked-1", "asked-2")

	client.request(t, "sync", `{"kind": "VM", "selector": {"tier": "web"}}`)

	client.request(t, "delete", `{"kind": "VM", "name": "asked-2"}`)
	eventually(t, "the VM is gone", func() error {
		if _, err := g.get("VM", "asked-2"); err == nil {
			return errors.New("it is there")
		}

		return nil
	})

	for what, test := range map[string]struct{ verb, body, says string }{
		"a Host may not be declared":          {"apply", document("Host", "evil", `{uri: "sim://b"}`), "Host"},
		"a secret's place may not be widened": {"apply", document("Webhook", "evil", "{auth: {none: true}}"), "Webhook"},
		"what a file declares stays":          {"delete", `{"kind": "VM", "name": "web-1"}`, "lab.yaml"},
		"what is not there is said to be so":  {"get", `{"kind": "VM", "name": "nobody"}`, "nobody"},
		"nonsense is refused":                 {"get", `{`, "read"},
	} {
		out, err := client.run("req", "gateway.request."+test.verb, test.body)
		require.Contains(t, fmt.Sprint(out, err), test.says, what)
	}

	_, err = g.get("VM", "web-1")
	require.NoError(t, err)
}

func (g *gateway) cliFinds(t *testing.T, client *nats) {
	services := client.must(t, "micro", "ls")
	require.Contains(t, services, "gateway")

	info := client.must(t, "micro", "info", "gateway")
	for _, verb := range []string{"get", "apply", "sync", "delete"} {
		require.Contains(t, info, "gateway.request."+verb)
	}

	require.Contains(t, client.must(t, "micro", "stats", "gateway"), "gateway")
	client.shows(t, g, "web-1", "running")

	var host cloudEvent

	require.NoError(t, json.Unmarshal([]byte(client.must(t, "kv", "get", "gateway-host-status", "a", "--raw")), &host))
	require.Equal(t, "gateway.host.status.v1", host.Type)

	code, _ := g.httpGet("/readyz")
	require.Equal(t, http.StatusOK, code)
}
