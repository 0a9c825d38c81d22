package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCaseV7Names sends names that are none on every way in: each refuses all of them.
func TestCaseV7Names(t *testing.T) {
	need(t, natsCLI)

	g := newGateway(t, "")
	// Documents are taken from a broker only where its clients are known.
	g.config = fmt.Sprintf("nats: {embedded: {listen: 127.0.0.1:0, tokenFile: %s}}", g.secret("token", "let-me-in"))
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`),
		document("Webhook", "inbox", fmt.Sprintf("{auth: {bearer: {tokenFiles: [%s]}}, apply: {kinds: [VM]}}", g.secret("bearer", "bearer"))),
		document("Subscription", "commands", `{subject: "ops.>", apply: {kinds: [VM]}}`)))
	g.start()
	g.routed(t, "inbox")

	client := &nats{t: t, url: strings.Replace(g.nats, "nats://", "nats://let-me-in@", 1)}

	names := []string{"../x", "a/b", ".", "é", "a\x00b", strings.Repeat("x", 64), "Web"}
	for i, name := range names {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)

		text := fmt.Sprintf(`{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": %s}, "spec": {}}`, quoted)

		t.Run(fmt.Sprintf("%.8q", name), func(t *testing.T) {
			file := fmt.Sprintf("bad-%d.yaml", i)
			g.write(file, text)
			g.complains(t, file, "metadata.name")

			_, errs, code := g.run("apply", "-f", filepath.Join(g.documents(), file))
			require.Equal(t, 1, code)
			require.Contains(t, errs, "metadata.name")

			require.Equal(t, 422, rawRequest(t, g, post1("inbox?wait=10s", fmt.Sprintf("Authorization: Bearer bearer\r\nContent-Length: %d\r\n", len(text)), text)))

			before := dead(g, "subscription")
			eventually(t, "the message is a dead letter", func() error {
				if _, err := client.run("pub", "ops.vm", text); err != nil {
					return err
				}

				if dead(g, "subscription") == before {
					return fmt.Errorf("there is none")
				}

				return nil
			})
			require.NoError(t, os.Remove(filepath.Join(g.documents(), file)))
		})
	}

	objects, err := g.list("VM")
	require.NoError(t, err)
	require.Empty(t, objects)
	g.stop()
}

// dead counts the events of a source that could not be processed because of their name.
func dead(g *gateway, source string) (n int) {
	for _, e := range g.events(source) {
		if e.Class == "dead" && strings.Contains(e.Message, "metadata.name") {
			n++
		}
	}

	return n
}
