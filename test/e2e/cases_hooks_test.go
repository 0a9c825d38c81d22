package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rawRequest writes a request byte for byte, and returns the status of the answer.
func rawRequest(t *testing.T, g *gateway, text string) int {
	t.Helper()

	conn, err := net.Dial("tcp", g.http)
	require.NoError(t, err)

	defer conn.Close()

	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))

	// The gateway may answer, and close, before it has read everything.
	_, _ = io.WriteString(conn, text)

	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	return response.StatusCode
}

// hello is GitHub's documented example.
const (
	hello          = "Hello, World!"
	helloSignature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

// post1 returns a request with headers, each with its line end, and a body.
func post1(route, headers, body string) string {
	return "POST /hooks/" + route + " HTTP/1.1\r\nHost: gateway\r\n" + headers + "\r\n" + body
}

func TestCasesOfWebhooks(t *testing.T) {
	g := newGateway(t, "")
	g.write("hooks.yaml", documents(g.githubHook("deploy", ", content: any"), g.githubHook("other", ", content: any")))
	g.start()
	g.routed(t, "deploy", "other")

	length := fmt.Sprintf("Content-Length: %d\r\n", len(hello))
	accepted := 0

	for _, c := range []struct {
		name, request string
		code          int
	}{
		{"S1: the vector that GitHub documents", post1("deploy", length+"X-Hub-Signature-256: sha256="+helloSignature+"\r\n", hello), 202},
		{"S4: names of headers in capitals", post1("deploy", length+"X-HUB-SIGNATURE-256: sha256="+helloSignature+"\r\n", hello), 202},
		{"S4: a digest in capitals", post1("deploy", length+"x-hub-signature-256: sha256="+strings.ToUpper(helloSignature)+"\r\n", hello), 202},
		{"S5: the older signature alone", post1("deploy", length+"X-Hub-Signature: sha1=0000\r\n", hello), 401},
		{"S8: a length of 10 MiB is refused before a byte is read", post1("deploy", "Content-Length: 10485760\r\n", ""), 413},
		{"S8: one byte too many in chunks", post1("deploy", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 1<<20+1, strings.Repeat("x", 1<<20+1))), 413},
		{"S15: a route that is not there", post1("nobody", length, hello), 404},
		{"S15: another method", "GET /hooks/deploy HTTP/1.1\r\nHost: gateway\r\n\r\n", 405},
		{"S15: a token in the query", post1("deploy?token=hunter2", length, hello), 401},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.code, rawRequest(t, g, c.request)) })

		if c.code == 202 {
			accepted++
		}
	}

	require.Equal(t, accepted, taken(g, "webhook"), "what was refused led to nothing")

	t.Run("S11: the same delivery twice is one event, on another route another", func(t *testing.T) {
		d := delivery{id: "same", body: `{"n": 1}`, secret: githubSecret}
		first, second, third := g.deliver(t, "deploy", d), g.deliver(t, "deploy", d), g.deliver(t, "other", d)
		require.Equal(t, answer{Code: 202, ID: first.ID}, first)
		require.Equal(t, answer{Code: 202, ID: first.ID, Duplicate: true}, second)
		require.Equal(t, 202, third.Code)
		require.False(t, third.Duplicate)
		require.NotEqual(t, first.ID, third.ID)
		require.Equal(t, accepted+2, taken(g, "webhook"))
	})

	// Neither what is secret nor what was thought to be.
	require.NotContains(t, g.log.String(), "hunter2")
	require.NotContains(t, g.log.String(), githubSecret)
	g.stop()
}

// taken counts the events of a source that were taken in.
func taken(g *gateway, source string) (n int) {
	for _, e := range g.events(source) {
		if e.Class == "event" {
			n++
		}
	}

	return n
}
