package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCaseS62MessagesOverKills kills the gateway between storing and acknowledging messages of a stream: each is delivered
// again, and is one event.
func TestCaseS62MessagesOverKills(t *testing.T) {
	need(t, natsServer, natsCLI)

	const messages = 300

	random, s := seed(t), newServer(t)
	client := &nats{t: t, url: s.url()}
	_, err := client.run("stream", "add", "OPS", "--subjects", "ops.>", "--defaults")
	require.NoError(t, err)

	g := newGateway(t, fmt.Sprintf("nats: {url: %q}", s.url()))
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{}"),
		document("Subscription", "commands", `{subject: "ops.>", stream: OPS, deliver: all, ackWait: 2s, maxDeliver: 100, target: {kind: VM, name: web-1}}`)))

	publisher := client.follow("pub", "ops.vm", `{"n": {{Count}}}`, "--count", fmt.Sprint(messages), "--sleep", "15ms")

	for range 6 {
		g.launch()
		pause(t, time.Duration(random.Int64N(int64(1500*time.Millisecond))))
		g.kill()
	}

	<-publisher.done
	g.start()

	eventually(t, "every message is one event", func() error {
		count := map[string]int{}

		for _, e := range g.events("subscription") {
			if e.Class == "event" {
				count[e.EventID]++
			}
		}

		for id, n := range count {
			require.Equal(t, 1, n, "event %s", id)
		}

		require.LessOrEqual(t, len(count), messages)

		if len(count) < messages {
			return fmt.Errorf("%d of %d", len(count), messages)
		}

		return nil
	})
	g.stop()
}
