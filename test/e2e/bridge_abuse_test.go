package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the gateway is abused with, and what it has to hold meanwhile.
const (
	halfOpen      = 200
	headerTimeout = 10 * time.Second
	bigBody       = 200 << 20
	floodRate     = 10_000
	floodTime     = 5 * time.Second
	memoryLimit   = 150 << 20
	calmAnswer    = time.Second
)

// TestBridgeAbuse has 200 clients that never finish their header, bodies of 200 MB, others that stop and 10,000 wrong
// signatures a second at once: memory stays bounded, and who behaves is served as if nothing were.
func TestBridgeAbuse(t *testing.T) {
	g := newGateway(t, "")
	g.write("lab.yaml", documents(
		document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{memory: 128MiB}"),
		g.githubHook("calm", ", target: {kind: VM, name: web-1}"),
		g.githubHook("big", ""), g.githubHook("slow", ""),
		// Without the limit of the rate every one of the signatures is looked at.
		g.githubHook("flooded", ", limits: {rate: 1000000/s}"),
	))
	g.start()
	g.running("web-1")
	g.routed(t, "calm", "big", "slow", "flooded")

	memory := watchMemory(t, g.pid())
	calm := newCalm(t, g)

	var abuse sync.WaitGroup

	abuse.Go(func() { halfHeaders(t, g.http) })
	abuse.Go(func() { bigBodies(t, g.http) })
	abuse.Go(func() { slowBodies(t, g.http) })
	abuse.Go(func() { wrongSignatures(t, g.http) })
	abuse.Wait()

	calm.end()
	t.Logf("memory: %d MiB at most; calm answers: %d, the slowest after %s", memory.end()>>20, calm.answers, calm.slowest)
	require.Less(t, memory.most.Load(), int64(memoryLimit), "the resident memory")
	require.Greater(t, calm.answers, 50)
	// On two cores that others use as well, one in fifty may have to wait for its turn.
	require.LessOrEqual(t, calm.slow*50, calm.answers, "deliveries to another route that took more than %s", calmAnswer)

	for _, reason := range []string{"unauthenticated", "too-large"} {
		require.Positive(t, g.metric("gateway_events_refused_total", fmt.Sprintf("reason=%q", reason)))
	}

	g.stop()
}

// halfHeaders opens connections that send half a header, and requires that each is closed at the header's timeout.
func halfHeaders(t *testing.T, address string) {
	var clients sync.WaitGroup

	for range halfOpen {
		clients.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Errorf("error connecting: %v", err)

				return
			}
			defer conn.Close()

			begin := time.Now()

			if _, err := io.WriteString(conn, "POST /hooks/calm HTTP/1.1\r\nHost: gateway\r\nX-Half"); err != nil {
				t.Errorf("error sending half a header: %v", err)

				return
			}

			_ = conn.SetReadDeadline(begin.Add(headerTimeout + patience))
			_, err = io.Copy(io.Discard, conn)

			if took := time.Since(begin); errors.Is(err, os.ErrDeadlineExceeded) || took < headerTimeout-time.Second || took > headerTimeout+stretched(5*time.Second) {
				t.Errorf("half a header was held for %s: %v", took, err)
			}
		})
	}

	clients.Wait()
}

// bigBodies sends 200 MB, with and without saying so before, several at once. Each is refused before it is sent.
func bigBodies(t *testing.T, address string) {
	var clients sync.WaitGroup

	for i := range 8 {
		clients.Go(func() {
			header, chunk := fmt.Sprintf("Content-Length: %d", bigBody), strings.Repeat("0", 64<<10)
			if i%2 == 0 {
				header, chunk = "Transfer-Encoding: chunked", "10000\r\n"+chunk+"\r\n"
			}

			code, sent, err := sendBody(address, "big", header, chunk, bigBody/(64<<10))
			if code != http.StatusRequestEntityTooLarge {
				t.Errorf("a body of 200 MB with %s is answered with %d: %v", header, code, err)
			}

			if sent > bigBody/4 {
				t.Errorf("%d bytes of a body with %s were taken before it was refused", sent, header)
			}
		})
	}

	clients.Wait()
}

// slowBodies fills every slot of a route with a body that stops one chunk short of its limit, and requires that all are given
// up at the route's timeout: those that were read, and those that waited for room.
func slowBodies(t *testing.T, address string) {
	var clients sync.WaitGroup

	for range 32 {
		clients.Go(func() {
			code, _, err := sendBody(address, "slow", "Content-Length: 1048576", strings.Repeat("0", 64<<10), 15)
			if code != http.StatusBadRequest && code != http.StatusServiceUnavailable {
				t.Errorf("a body that stops is answered with %d: %v", code, err)
			}
		})
	}

	clients.Wait()
}

// sendBody sends chunks of a body until there is an answer, and returns its status and what the server took of the body.
func sendBody(address, route, header, chunk string, chunks int) (code int, sent int64, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, 0, err
	}

	var took atomic.Int64

	done := make(chan struct{})

	defer func() {
		conn.Close()
		<-done
		sent = took.Load()
	}()

	go func() {
		defer close(done)

		_, err := fmt.Fprintf(conn, "POST /hooks/%s HTTP/1.1\r\nHost: gateway\r\n%s\r\n\r\n", route, header)
		for i := 0; i < chunks && err == nil; i++ {
			var n int

			// It fails once the server has refused the rest.
			n, err = io.WriteString(conn, chunk)
			took.Add(int64(n))
		}
	}()

	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, 0, err
	}

	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, 0, err
	}

	return response.StatusCode, 0, response.Body.Close()
}

// senders is how many connections share the flood: fewer than a route's slots, so that each request comes to its signature.
const senders = 20

// wrongSignatures sends 10,000 of them a second, each refused.
func wrongSignatures(t *testing.T, address string) {
	body := `{"ref": "refs/heads/main", "message": "` + strings.Repeat("x", 400) + `"}`
	request := fmt.Sprintf("POST /hooks/flooded HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"+
		"X-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\n\r\n%s", strings.Repeat("0", 64), len(body), body)

	const (
		tick  = 20 * time.Millisecond
		ticks = int(floodTime / tick)
		burst = floodRate * int(tick) / int(time.Second) / senders
	)

	var (
		flood    sync.WaitGroup
		answered atomic.Int64
		begin    = time.Now()
	)

	for range senders {
		flood.Go(func() {
			n, err := floodOne(address, strings.Repeat(request, burst), tick, ticks, ticks*burst)
			answered.Add(int64(n))

			if err != nil {
				t.Errorf("a flood was cut off after %d answers: %v", n, err)
			}
		})
	}

	flood.Wait()

	took := time.Since(begin)
	t.Logf("%d wrong signatures were refused in %s: %.0f a second", answered.Load(), took.Round(time.Millisecond), float64(answered.Load())/took.Seconds())
}

// floodOne writes requests at their times, on one connection without waiting for answers, and reads the answers.
func floodOne(address, requests string, tick time.Duration, ticks, total int) (answered int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()

	if err := conn.SetDeadline(time.Now().Add(floodTime + patience)); err != nil {
		return 0, err
	}

	written := make(chan error, 1)

	go func() {
		// A server that is slower than this is sent the rest as fast as it takes it.
		next := time.NewTicker(tick)
		defer next.Stop()

		for range ticks {
			if _, err := io.WriteString(conn, requests); err != nil {
				written <- err

				return
			}

			<-next.C
		}

		written <- nil
	}()

	for reader := bufio.NewReader(conn); answered < total; answered++ {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answered, err
		}

		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return answered, err
		}

		if response.StatusCode != http.StatusUnauthorized {
			return answered, fmt.Errorf("a wrong signature is answered with %d", response.StatusCode)
		}
	}

	return answered, <-written
}

// calm is a sender that behaves, beside those that don't.
type calm struct {
	cancel  context.CancelFunc
	done    chan struct{}
	answers int
	// slow are the answers after more than a second.
	slow    int
	slowest time.Duration
}

// newCalm starts the sender. A delivery that is not answered with 202 fails the test.
func newCalm(t *testing.T, g *gateway) *calm {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	c := &calm{cancel: cancel, done: make(chan struct{})}

	go func() {
		defer close(c.done)

		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()

		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}

			begin := time.Now()
			a, err := post(t.Context(), g.http, "calm", delivery{id: fmt.Sprint("calm-", c.answers), body: `{"ref": "refs/heads/main"}`, secret: githubSecret})
			took := time.Since(begin)

			if err != nil || a.Code != http.StatusAccepted {
				t.Errorf("a delivery to another route: %d after %s: %v", a.Code, took, err)
			}

			if took > stretched(calmAnswer) {
				c.slow++
			}

			c.answers++
			c.slowest = max(c.slowest, took)
		}
	}()

	return c
}

func (c *calm) end() {
	c.cancel()
	<-c.done
}

// memoryWatch notes the resident memory of a process.
type memoryWatch struct {
	most   atomic.Int64
	cancel context.CancelFunc
	done   chan struct{}
}

func watchMemory(t *testing.T, pid int) *memoryWatch {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	m := &memoryWatch{cancel: cancel, done: make(chan struct{})}

	go func() {
		defer close(m.done)

		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()

		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}

			status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				t.Errorf("error reading the memory of the gateway: %v", err)

				return
			}

			resident, err := residentMemory(status)
			status.Close()

			if err != nil {
				t.Errorf("error reading the memory of the gateway: %v", err)

				return
			}

			m.most.Store(max(m.most.Load(), resident))
		}
	}()

	return m
}

// end returns the most that there was.
func (m *memoryWatch) end() int64 {
	m.cancel()
	<-m.done

	return m.most.Load()
}
