package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// awayTime sets how long NATS is away, as 60s.
const awayTime = "GATEWAY_E2E_AWAY"

// Numbers of TestBridgeNATSAway. Its deliveries stay below those that `gateway events` lists.
const (
	awayDefault = 20 * time.Second
	awaySides   = 3 * time.Second
	appliedVMs  = 10
	// hidden is in every payload, and must be in nothing that leaves.
	hidden = "not for anybody else"
)

// TestBridgeNATSAway stops NATS under a load of signed webhooks, each of which changes a VM, and kills the gateway meanwhile.
// What NATS has afterwards is the newest, in order, with nothing twice that is not the same; nothing that was acknowledged
// is lost.
func TestBridgeNATSAway(t *testing.T) {
	need(t, natsServer)

	away := awayDefault
	if d, err := time.ParseDuration(os.Getenv(awayTime)); err == nil {
		away = d
	}

	s := newServer(t)
	g := newGateway(t, fmt.Sprintf("nats: {url: %q}", s.url()))
	g.write("lab.yaml", documents(
		document("Host", "a", fmt.Sprintf("{uri: %q}", "sim://a?state="+g.path("domains"))),
		document("VM", "web-1", "{memory: 64MiB}"),
		g.githubHook("inbox", `, apply: {kinds: [VM], names: "vm-*"}, limits: {rate: 1000/s}`)))
	g.start()
	g.running("web-1")
	g.routed(t, "inbox")

	load := newVMLoad(t, (away+4*awaySides)/800)
	load.address.Store(g.http)
	pass(t, awaySides)

	s.end(syscall.SIGTERM)
	toggle(t, g, away/2)

	load.address.Store("")
	g.kill()
	g.start()
	load.address.Store(g.http)

	toggle(t, g, away/2)
	g.cli("pause", "web-1")
	s.start()
	pass(t, awaySides)
	load.end()

	warnings := strings.Count(g.log.String(), `"level":"warn"`) + strings.Count(g.log.String(), `"level":"error"`)
	require.Less(t, warnings, 100, "lines about a server that is away")

	client := newBroker(t, s.url())
	newest(t, g, client)
	load.kept(t, g, client)
	g.stop()
}

// pass lets time go by: what is tested goes on by itself.
func pass(t *testing.T, d time.Duration) {
	t.Helper()

	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test ended")
	}
}

// toggle has the VM of a file paused and resumed for a while.
func toggle(t *testing.T, g *gateway, d time.Duration) {
	t.Helper()

	for end := time.Now().Add(d); time.Now().Before(end); pass(t, 500*time.Millisecond) {
		g.cli("pause", "web-1")
		g.cli("wait", "VM", "web-1", "--for", "state=paused", "--timeout", "30s")
		g.cli("resume", "web-1")
		g.cli("wait", "VM", "web-1", "--for", "state=running", "--timeout", "30s")
	}
}

// newest waits until the last message of each VM's subject, and its key in the bucket, are what the gateway says, and
// requires that all messages are in order.
func newest(t *testing.T, g *gateway, client *broker) {
	t.Helper()

	var messages []message

	eventually(t, "the newest status of every VM is on its subject", func() (err error) {
		if messages, err = client.all(t.Context(), "GATEWAY_STATUS"); err != nil {
			return err
		}

		objects, err := g.list("VM")
		if err != nil {
			return err
		}

		if len(objects) != appliedVMs+1 {
			return fmt.Errorf("there are %d VMs", len(objects))
		}

		last := map[string]message{}
		for _, m := range messages {
			last[m.subject] = m
		}

		for name, o := range objects {
			if err := agrees(t, client, o, last["gateway.vm."+name+".status"]); err != nil {
				return err
			}
		}

		return nil
	})

	ordered(t, messages)
	nowhere(t, hidden, messages)
	t.Logf("%d statuses of %d VMs were published", len(messages), appliedVMs+1)
}

// agrees returns why a VM's last message and its key in the bucket are not what `gateway get` shows.
func agrees(t *testing.T, client *broker, o object, last message) error {
	t.Helper()

	if last.data == nil {
		return fmt.Errorf("there is nothing of %s", o.Metadata.Name)
	}

	kept, err := client.kept(t.Context(), "gateway-vm-status", o.Metadata.Name)
	if err != nil {
		return err
	}

	if string(kept) != string(last.data) {
		return fmt.Errorf("the bucket has %s, the subject %s", kept, last.data)
	}

	now := decodeEvent(t, string(kept)).Data
	if o.Status.ObservedRevision != o.Metadata.Revision || now.ObservedRevision != o.Metadata.Revision || now.State != o.Status.State || now.Cause != o.Status.Cause {
		return fmt.Errorf("the bucket has %s, `gateway get` shows %+v", kept, o)
	}

	return nil
}

// vmLoad sends deliveries, each of which changes a VM.
type vmLoad struct {
	// address is where the gateway listens at the moment; empty: nowhere.
	address atomic.Value
	cancel  context.CancelFunc
	senders sync.WaitGroup

	mu       sync.Mutex // guards the following
	next     int
	accepted map[string]string
}

// newVMLoad starts two senders that send a delivery in every so much time together.
func newVMLoad(t *testing.T, every time.Duration) *vmLoad {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	l := &vmLoad{cancel: cancel, accepted: map[string]string{}}
	l.address.Store("")

	for range 2 {
		l.senders.Go(func() {
			ticker := time.NewTicker(2 * every)
			defer ticker.Stop()

			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}

				if address, _ := l.address.Load().(string); address != "" {
					l.one(t, address)
				}
			}
		})
	}

	return l
}

func (l *vmLoad) one(t *testing.T, address string) {
	l.mu.Lock()
	l.next++
	n := l.next
	l.mu.Unlock()

	id := fmt.Sprintf("vm-%d", n)

	body, err := json.Marshal(map[string]any{
		"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": map[string]any{"name": fmt.Sprintf("vm-%d", n%appliedVMs)},
		"spec": map[string]any{"memory": "64MiB", "description": fmt.Sprintf("%s: %d", hidden, n)},
	})
	if err != nil {
		t.Errorf("error encoding a delivery: %v", err)

		return
	}

	// One that was cut off by the kill was not acknowledged.
	a, err := post(t.Context(), address, "inbox", delivery{id: id, body: string(body), secret: githubSecret})
	if err != nil {
		return
	}

	if a.Code != http.StatusAccepted {
		// A gateway that is starting asks for it again.
		if a.Code != http.StatusServiceUnavailable {
			t.Errorf("delivery %s is answered with %d", id, a.Code)
		}

		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.accepted[id] = a.ID
}

func (l *vmLoad) end() {
	l.cancel()
	l.senders.Wait()
}

// kept requires that all that was acknowledged is in the journal once, and on its subject.
func (l *vmLoad) kept(t *testing.T, g *gateway, client *broker) {
	t.Helper()
	require.Greater(t, len(l.accepted), 100)
	require.Less(t, len(l.accepted), maxDeliveries)
	t.Logf("%d deliveries were answered with 202", len(l.accepted))

	count := map[string]int{}

	for _, e := range g.events("webhook") {
		if e.Class == "event" {
			count[e.EventID]++
		}
	}

	for id, event := range l.accepted {
		require.Equal(t, 1, count[event], "delivery %s was answered with 202 and event %s", id, event)
	}

	var messages []message

	eventually(t, "every event is on its subject", func() (err error) {
		if messages, err = client.all(t.Context(), "GATEWAY_EVENTS"); err != nil {
			return err
		}

		published := map[string]bool{}
		for _, m := range messages {
			published[eventID(t, m)] = true
		}

		missing := 0

		for _, event := range l.accepted {
			if !published[event] {
				missing++
			}
		}

		if missing > 0 {
			return fmt.Errorf("%d of %d are not there", missing, len(l.accepted))
		}

		return nil
	})
	unique(t, messages)
	nowhere(t, hidden, messages)
}
