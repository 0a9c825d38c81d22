package webhooks_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// large is a JSON string of a size that needs space.
func large(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }

// TestBodiesThatStopLeaveSpace: senders that nobody knows hold a bounded amount of memory, and other routes and small bodies
// do not wait for them.
func TestBodiesThatStopLeaveSpace(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	b.route("attacked", func(s *resources.WebhookSpec) { s.Limits.Timeout = resources.Duration(time.Second) })
	b.route("other", nil)

	pipe, writer := io.Pipe()
	stopped := make(chan struct{}, 100)

	var senders sync.WaitGroup

	// Eight bodies of 1 MiB are the space of a route.
	for range 8 {
		senders.Go(func() {
			body := io.MultiReader(strings.NewReader(large(20<<10)), &noting{Reader: pipe, reached: stopped})
			r := httptest.NewRequest(http.MethodPost, "/hooks/attacked", body)
			r.ContentLength = 1 << 20
			b.srv.Handler().ServeHTTP(httptest.NewRecorder(), r)
		})
	}

	for range 8 {
		<-stopped
	}

	for name, test := range map[string]struct {
		route  string
		bytes  int
		status int
	}{
		"a large body on another route is taken":                      {"other", 900 << 10, http.StatusAccepted},
		"a small body on the same route is taken":                     {"attacked", 16 << 10, http.StatusAccepted},
		"a large one on the same route is asked to come again, later": {"attacked", 900 << 10, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.status, b.github(test.route, large(test.bytes), nil).status)
		})
	}

	require.NoError(t, writer.Close())
	senders.Wait()
	require.Equal(t, http.StatusAccepted, b.github("attacked", large(900<<10), nil).status, "the space is given back")
}

// noting says when it is read.
type noting struct {
	io.Reader

	reached chan<- struct{}
	once    sync.Once
}

func (n *noting) Read(p []byte) (int, error) {
	n.once.Do(func() { n.reached <- struct{}{} })

	return n.Reader.Read(p)
}
