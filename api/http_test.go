package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/api"
	"gateway/internal/ports"
)

// serveHTTP runs a listener until the test ends and returns its base URL.
func serveHTTP(t *testing.T, o api.HTTPOptions) string {
	t.Helper()

	o.Logger, o.Gather = zap.NewNop(), prometheus.NewRegistry()
	if o.Hooks == nil {
		o.Hooks = http.NotFoundHandler()
	}

	h, err := api.ListenHTTP("127.0.0.1:0", o)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)

	go func() { done <- h.Run(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	return h.Addr().String()
}

// answer returns status and body of a GET.
func answer(t *testing.T, c *http.Client, url string) (int, string) {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)

	response, err := c.Do(request)
	require.NoError(t, err)

	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	return response.StatusCode, string(body)
}

func TestReadinessSaysWhatIsNotReady(t *testing.T) {
	var failure error

	base := "http://" + serveHTTP(t, api.HTTPOptions{Ready: []api.Check{
		{Name: "store", Check: func() error { return nil }},
		{Name: "nats", Check: func() error { return failure }},
	}})
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	status, body := answer(t, c, base+"/readyz")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"ready": true, "checks": {"store": "ok", "nats": "ok"}}`, body)

	failure = errors.New("not connected")
	status, body = answer(t, c, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"ready": false, "checks": {"store": "ok", "nats": "not connected"}}`, body)

	status, body = answer(t, c, base+"/healthz")
	require.Equal(t, http.StatusOK, status, "it lives, ready or not")
	require.JSONEq(t, `{"status": "ok"}`, body)
}

func TestTheListenerServesHooksAndMetricsAndNothingElse(t *testing.T) {
	base := "http://" + serveHTTP(t, api.HTTPOptions{Hooks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	})})
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	status, body := answer(t, c, base+"/hooks/deploy")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "/hooks/deploy", body)

	for path, want := range map[string]int{"/metrics": http.StatusOK, "/": http.StatusNotFound, "/v1/version": http.StatusNotFound, "/api/v1alpha1/vms": http.StatusNotFound} {
		status, _ := answer(t, c, base+path)
		require.Equal(t, want, status, path)
	}
}

func TestAnAddressInUseNamesTheKeyThatChangesIt(t *testing.T) {
	address := serveHTTP(t, api.HTTPOptions{})

	_, err := api.ListenHTTP(address, api.HTTPOptions{Hooks: http.NotFoundHandler(), Gather: prometheus.NewRegistry(), Logger: zap.NewNop()})
	require.EqualError(t, err, address+" is in use"+ports.Holder(address)+": change http.listen (GATEWAY_HTTP_LISTEN, --listen), or stop what listens there")
}

func TestCaseS10HalfHeadersAreClosedAndOthersGoOn(t *testing.T) {
	t.Parallel() // it takes as long as a header may

	const (
		halves  = 200
		timeout = 10 * time.Second
	)

	address := serveHTTP(t, api.HTTPOptions{})

	var clients sync.WaitGroup

	for range halves {
		clients.Go(func() {
			conn, err := net.Dial("tcp", address)
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()

			begin := time.Now()
			_, err = io.WriteString(conn, "POST /hooks/deploy HTTP/1.1\r\nHost: gateway\r\nX-Half")
			assert.NoError(t, err)

			assert.NoError(t, conn.SetReadDeadline(begin.Add(6*timeout)))
			_, err = io.Copy(io.Discard, conn)
			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is closed")
			assert.GreaterOrEqual(t, time.Since(begin), timeout-time.Second)
		})
	}

	status, _ := answer(t, http.DefaultClient, "http://"+address+"/healthz")
	require.Equal(t, http.StatusOK, status, "others are answered meanwhile")
	clients.Wait()
}
