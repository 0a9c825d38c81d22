package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"gateway/internal/ports"
)

// Limits of the HTTP listener. A sender that does not finish its header in headerTimeout is closed; a header is at most
// 16 KiB. At maxConnections open connections the next ones wait in the kernel's queue: 1,000 of them hold some 20 MB, and with
// unfinished headers 16 MB more. Over HTTP/2 one connection is not to hold what many do: a window of 64 KiB instead of 1 MiB.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	maxHeaderBytes  = 16 << 10
	maxConnections  = 1000
	maxStreams      = 100
	windowBytes     = 64 << 10
	shutdownTimeout = 3 * time.Second
)

// Check is one part of readiness: nil, or why it is not ready.
type Check struct {
	Name  string
	Check func() error
}

// HTTPOptions configure the listener.
type HTTPOptions struct {
	// Hooks answers below /hooks/.
	Hooks  http.Handler
	Gather prometheus.Gatherer
	Ready  []Check
	// Certificates is nil for plain HTTP.
	Certificates *Certificates
	Logger       *zap.Logger
}

// HTTP is the listener of webhooks, health, readiness and metrics.
type HTTP struct {
	listener net.Listener
	server   *http.Server
	tls      *Certificates
}

// ListenHTTP takes the address. One that is in use is an error that names the key to change it.
func ListenHTTP(address string, o HTTPOptions) (*HTTP, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use%s: change http.listen (GATEWAY_HTTP_LISTEN, --listen), or stop what listens there", address, ports.Holder(address))
	}

	if err != nil {
		return nil, fmt.Errorf("http.listen: %w", err)
	}

	mux := http.NewServeMux()
	mux.Handle("/hooks/", o.Hooks)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { ready(w, o.Ready) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gather, promhttp.HandlerOpts{}))

	h := &HTTP{
		listener: limitListener(listener, maxConnections), tls: o.Certificates,
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: windowBytes, MaxReceiveBufferPerStream: windowBytes,
			},
			ErrorLog: quiet(o.Logger),
		},
	}

	if o.Certificates != nil {
		h.server.TLSConfig = o.Certificates.config()
	}

	return h, nil
}

// Addr is where it listens.
func (h *HTTP) Addr() net.Addr { return h.listener.Addr() }

// Connections is how many are open.
func (h *HTTP) Connections() int { return len(h.listener.(*limited).slots) } //nolint:forcetypeassert // ListenHTTP made it

// Run serves until ctx ends, and then lets requests under way finish for three seconds.
func (h *HTTP) Run(ctx context.Context) error {
	done := make(chan error, 1)

	go func() {
		if h.tls != nil {
			done <- h.server.ServeTLS(h.listener, "", "")
		} else {
			done <- h.server.Serve(h.listener)
		}
	}()

	select {
	case err := <-done:
		return fmt.Errorf("error serving HTTP on %s: %w", h.Addr(), err)
	case <-ctx.Done():
	}

	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()

	if err := h.server.Shutdown(limited); err != nil {
		return h.server.Close()
	}

	return nil
}

// ready answers 200 when every check passes, else 503; the reasons are in both.
func ready(w http.ResponseWriter, checks []Check) {
	status, reasons := http.StatusOK, map[string]string{}

	for _, c := range checks {
		reasons[c.Name] = "ok"

		if err := c.Check(); err != nil {
			status, reasons[c.Name] = http.StatusServiceUnavailable, err.Error()
		}
	}

	writeJSON(w, status, map[string]any{"ready": status == http.StatusOK, "checks": reasons})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)

	// The client is gone if this fails; there is nobody to tell.
	_ = encoder.Encode(value)
}
