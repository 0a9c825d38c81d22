package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExternalNATS has the statuses on a NATS server of somebody else, which is away for a while.
func TestExternalNATS(t *testing.T) {
	need(t, natsServer, natsCLI)

	s := newServer(t)
	g := newGateway(t, fmt.Sprintf("nats: {url: %q}", s.url()))
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{}"), document("VM", "web-2", "{}")))
	g.start()
	g.running("web-1", "web-2")

	client := &nats{t: t, url: s.url()}
	client.shows(t, g, "web-1", "running")
	client.shows(t, g, "web-2", "running")

	t.Run("a second gateway with the prefix ends, and names the holder", func(t *testing.T) {
		second := newGateway(t, g.config)
		second.launch()
		require.Equal(t, 1, second.exitCode(10*time.Second))
		require.Contains(t, second.log.String(), g.log.field("the gateway runs", "id"))
		require.Contains(t, second.log.String(), "prefix")
	})

	t.Run("a second gateway on the data directory ends, and names the holder", func(t *testing.T) {
		second := startProcess(t, g.dir, binary, "run", "--config", g.path("config.yaml"))
		<-second.exited
		require.Equal(t, 1, second.cmd.ProcessState.ExitCode())
		require.Contains(t, second.log.tail(3), strconv.Itoa(g.pid()))
	})

	t.Run("what changed while the server was away is there when it is back", func(t *testing.T) {
		s.kill()

		for range 3 {
			g.cli("stop", "web-1")
			g.cli("wait", "VM", "web-1", "--for", "state=stopped", "--timeout", "30s")
			g.cli("start", "web-1")
			g.cli("wait", "VM", "web-1", "--for", "state=running", "--timeout", "30s")
		}

		g.cli("stop", "web-2")
		g.cli("wait", "VM", "web-2", "--for", "state=stopped", "--timeout", "30s")

		s.start()
		client.shows(t, g, "web-1", "running")
		client.shows(t, g, "web-2", "stopped")
	})

	t.Run("a VM that is deleted is gone from the bucket, after a last event", func(t *testing.T) { lastEvent(t, g, client) })

	for _, name := range []string{"web-1", "web-2"} {
		risen(t, client.history(t, name))
	}

	g.stop()
}

// lastEvent takes web-2 away.
func lastEvent(t *testing.T, g *gateway, client *nats) {
	t.Helper()

	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{}")))

	eventually(t, "the last event of web-2 is that it is deleted", func() error {
		all := client.history(t, "web-2")
		if last := all[len(all)-1].event.Type; last != "gateway.vm.deleted.v1" {
			return fmt.Errorf("it is %s", last)
		}

		return nil
	})
	eventually(t, "the bucket has no web-2", func() error {
		if kept, err := client.run("kv", "get", "gateway-vm-status", "web-2", "--raw"); err == nil {
			return fmt.Errorf("it has %s", kept)
		}

		return nil
	})
}

// published is a message of a stream.
type published struct {
	uid    string
	number uint64
	event  cloudEvent
}

// history returns all messages of a VM, oldest first.
func (n *nats) history(t *testing.T, name string) (all []published) {
	t.Helper()

	for sequence := 0; ; {
		out, err := n.run("stream", "get", "GATEWAY_STATUS", fmt.Sprint(sequence+1), "--json")
		if err != nil {
			// Behind the last message, or one that was dropped: the stream's own state tells.
			if sequence++; sequence > n.lastSequence(t) {
				return all
			}

			continue
		}

		var m struct {
			Subject  string `json:"subject"`
			Sequence int    `json:"seq"`
			Headers  []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		}

		require.NoError(t, json.Unmarshal([]byte(out), &m), out)
		sequence = m.Sequence

		if m.Subject != "gateway.vm."+name+".status" {
			continue
		}

		uid, number := messageID(t, string(m.Headers))
		all = append(all, published{uid: uid, number: number, event: decodeEvent(t, string(m.Data))})
	}
}

func (n *nats) lastSequence(t *testing.T) int {
	t.Helper()

	out, err := n.run("stream", "info", "GATEWAY_STATUS", "--json")
	require.NoError(t, err)

	var info struct {
		State struct {
			Last int `json:"last_seq"`
		} `json:"state"`
	}

	require.NoError(t, json.Unmarshal([]byte(out), &info))

	return info.State.Last
}

// messageID returns the two halves of a Nats-Msg-Id header: whose status, and its number.
func messageID(t *testing.T, headers string) (uid string, number uint64) {
	t.Helper()

	for line := range strings.Lines(headers) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "Nats-Msg-Id: "); found {
			uid, text, found := strings.Cut(id, "/")
			require.True(t, found, id)

			if text == "deleted" {
				return uid, 0
			}

			number, err := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err, id)

			return uid, number
		}
	}

	t.Fatalf("a message without Nats-Msg-Id: %s", headers)

	return "", 0
}

// risen requires that the numbers of a VM's statuses rise strictly, in the order in which they were published.
func risen(t *testing.T, all []published) {
	t.Helper()
	require.NotEmpty(t, all)

	last := uint64(0)

	for _, p := range all {
		require.Equal(t, all[0].uid, p.uid)

		if p.event.Type == "gateway.vm.status.v1" {
			require.Greater(t, p.number, last)
			last = p.number
		}
	}
}

// shows waits until the bucket and the last message of a VM's subject are the same, and have this state.
func (n *nats) shows(t *testing.T, g *gateway, name, state string) {
	t.Helper()

	eventually(t, "NATS shows "+name+" "+state, func() error {
		kept, err := n.run("kv", "get", "gateway-vm-status", name, "--raw")
		if err != nil {
			return err
		}

		last, err := n.run("stream", "get", "GATEWAY_STATUS", "--last-for", "gateway.vm."+name+".status", "--json")
		if err != nil {
			return err
		}

		if message := payload(t, last); message != strings.TrimSpace(kept) {
			return fmt.Errorf("the bucket has %s, the subject %s", kept, message)
		}

		if now := decodeEvent(t, kept).Data.State; now != state {
			return fmt.Errorf("%s", now)
		}

		return nil
	})
}
