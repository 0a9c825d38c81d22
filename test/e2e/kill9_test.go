package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how often the gateway is killed in one test.
const kills = 10

// deletionKills is how often it is killed while everything is torn down.
const deletionKills = 3

// touched is what a test of kills knows of a hypervisor.
type touched interface {
	// host is its document.
	host() string
	// note records the domains that run, and requires that those recorded before were not touched since.
	note(t *testing.T)
	// once requires that there is exactly one running domain for each of these VMs.
	once(t *testing.T, names []string)
	// empty waits until nothing is left.
	empty(t *testing.T)
}

// TestKill9 kills the gateway in the middle of everything, again and again: what it acknowledged is kept, what it runs is
// left alone, what it was about to do is done once.
func TestKill9(t *testing.T) {
	t.Run("on QEMU", func(t *testing.T) {
		need(t, privateLibvirtd)
		h := newHypervisor(t)
		// libvirt looks QEMU over at its first use, which takes longer than the gateway lives between two kills.
		h.virsh("domcapabilities")
		killAgainAndAgain(t, &qemuHost{hypervisor: h, ran: map[string]identity{}}, 1)
	})

	t.Run("on a simulated host with a state file", func(t *testing.T) {
		killAgainAndAgain(t, newSimHost(t), 6)
	})
}

// seed returns the seed of a test's random choices: that of GATEWAY_E2E_SEED, or a new one. It is printed either way.
func seed(t *testing.T) *rand.Rand {
	t.Helper()

	n, err := strconv.ParseUint(os.Getenv("GATEWAY_E2E_SEED"), 10, 64)
	if err != nil {
		n = rand.Uint64N(1_000_000)
	}

	t.Logf("GATEWAY_E2E_SEED=%d", n)

	return rand.New(rand.NewPCG(n, 0))
}

// pause waits for the random moment of a kill.
func pause(t *testing.T, d time.Duration) {
	t.Helper()

	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited")
	}
}

// killAgainAndAgain drops VMs, so many at once, between kills at random moments.
func killAgainAndAgain(t *testing.T, h touched, atOnce int) {
	random, g, load := seed(t), newGateway(t, ""), &load{}

	g.write("host.yaml", documents(h.host(), document("Network", "lan", "{mode: isolated, subnet: 10.74.0.0/24}"),
		g.githubHook("deploy", ", target: {kind: VM, selector: {}}")))

	var names []string

	for range kills {
		var texts []string

		for range atOnce {
			names = append(names, fmt.Sprintf("vm-%d", len(names)))
			texts = append(texts, document("VM", names[len(names)-1],
				strings.Replace(vmOn("lan"), "{", "{disks: [{name: root, size: 16MiB, onDelete: remove}], ", 1)))
		}

		moment := time.Duration(random.Int64N(int64(2 * time.Second)))
		g.launch()
		g.write(names[len(names)-1]+".yaml", documents(texts...))

		ctx, cancel := context.WithTimeout(t.Context(), moment)
		load.send(ctx, g)
		cancel()
		g.kill()
		h.note(t)
	}

	g.start()
	g.running(names...)
	h.note(t)
	h.once(t, names)
	load.kept(t, g)
	t.Logf("%d kills, %d VMs, %d deliveries answered 202", kills, len(names), len(load.accepted))

	g.removeAll(t, "vm-*.yaml")

	// Teardown is cut short, too.
	for range deletionKills {
		pause(t, time.Duration(random.Int64N(int64(time.Second))))
		g.kill()
		g.launch()
	}

	g.listens()
	g.none("VM")
	h.empty(t)
	g.stop()
}

// load are the deliveries that were answered with 202, by delivery id.
type load struct {
	mu       sync.Mutex // guards the following
	next     int
	accepted map[string]string
}

// maxDeliveries is below the number of events that `gateway events` lists.
const maxDeliveries = 900

// send posts deliveries until ctx ends, from two senders.
func (l *load) send(ctx context.Context, g *gateway) {
	var senders sync.WaitGroup

	for range 2 {
		senders.Go(func() {
			ticker := time.NewTicker(25 * time.Millisecond)
			defer ticker.Stop()

			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}

				// Each process has its own port, said in the log once it listens.
				if address := g.log.field("the gateway runs", "http"); address != "" {
					l.one(ctx, address)
				}
			}
		})
	}

	senders.Wait()
}

func (l *load) one(ctx context.Context, address string) {
	l.mu.Lock()
	l.next++
	id := fmt.Sprintf("k-%d", l.next)
	full := len(l.accepted) >= maxDeliveries
	l.mu.Unlock()

	if full {
		return
	}

	// One that was cut off by the end was not acknowledged.
	a, err := post(ctx, address, "deploy", delivery{id: id, body: `{"n": "` + id + `"}`, secret: githubSecret})
	if err != nil || a.Code != 202 {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if l.accepted == nil {
		l.accepted = map[string]string{}
	}

	l.accepted[id] = a.ID
}

// kept requires that all that was acknowledged is there, each once, and is known when it is sent again.
func (l *load) kept(t *testing.T, g *gateway) {
	t.Helper()
	require.NotEmpty(t, l.accepted, "the load was too late for every kill")

	count := map[string]int{}

	for _, e := range g.events("webhook") {
		if e.Class == "event" {
			count[e.EventID]++
		}
	}

	for id, event := range l.accepted {
		require.Equal(t, 1, count[event], "delivery %s was answered with 202 and event %s", id, event)
	}

	again := 0

	for id, event := range maps.All(l.accepted) {
		a := g.deliver(t, "deploy", delivery{id: id, body: `{"n": "` + id + `"}`, secret: githubSecret})
		require.Equal(t, answer{Code: 202, ID: event, Duplicate: true}, a)

		if again++; again == 5 {
			return
		}
	}
}
