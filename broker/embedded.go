package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"gateway/internal/ports"
)

// EmbeddedOptions configure the NATS server inside the gateway.
type EmbeddedOptions struct {
	// Listen is HOST:PORT; port 0 takes a free one.
	Listen string
	// TokenFile holds the token that clients must give; empty: none, which is for loopback only.
	TokenFile string
	// DataDir is the gateway's; JetStream stores below it.
	DataDir string
	Logger  *zap.Logger
}

// Limits of the embedded server. The sum of the streams' own limits (Names.Streams) is 2.8 GiB; the rest is for streams
// that users make.
const (
	embeddedMaxStore  = 8 << 30
	embeddedMaxMemory = 256 << 20
	embeddedReady     = 10 * time.Second
	readyStep         = 100 * time.Millisecond
)

// Embedded is a running NATS server.
type Embedded struct {
	server *server.Server
	log    *logger
	// store is the directory of JetStream.
	store string
	open  bool
}

// StartEmbedded starts the server and returns once it takes connections. A port that is taken is an error that names it
// and the key to change it.
func StartEmbedded(o EmbeddedOptions) (*Embedded, error) {
	host, portText, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats.embedded.listen: %q is not HOST:PORT", o.Listen)
	}

	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("nats.embedded.listen: %q is not HOST:PORT", o.Listen)
	}

	if port == 0 {
		port = server.RANDOM_PORT
	} else if err := portFree(o.Listen); err != nil {
		return nil, err
	}

	options := &server.Options{
		ServerName: "gateway", Host: host, Port: port, NoSigs: true,
		JetStream: true, StoreDir: filepath.Join(o.DataDir, "nats"),
		JetStreamMaxStore: embeddedMaxStore, JetStreamMaxMemory: embeddedMaxMemory,
		MaxPayload: 1 << 20,
	}

	if o.TokenFile != "" {
		if options.Authorization, err = readToken(o.TokenFile); err != nil {
			return nil, fmt.Errorf("nats.embedded.tokenFile: %w", err)
		}
	}

	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("error configuring the embedded NATS server: %w", err)
	}

	log := &logger{log: zap.NewNop().Sugar()}
	if o.Logger != nil {
		log.log = o.Logger.Named("nats").Sugar()
	}

	s.SetLoggerV2(log, false, false, false)
	s.Start()

	if !ready(s, log) {
		s.Shutdown()
		s.WaitForShutdown()

		return nil, fmt.Errorf("the embedded NATS server did not start: %s", log.reason())
	}

	return &Embedded{server: s, log: log, store: options.StoreDir, open: options.Authorization == ""}, nil
}

// ready waits until the server takes connections, has given up, or embeddedReady is over.
func ready(s *server.Server, log *logger) bool {
	for end := time.Now().Add(embeddedReady); time.Now().Before(end); {
		if s.ReadyForConnections(readyStep) {
			return true
		}

		if log.fatal.Load() != nil {
			return false
		}
	}

	return false
}

// URL is where clients find the server.
func (e *Embedded) URL() string { return e.server.ClientURL() }

// Open reports whether the server takes clients without credentials.
func (e *Embedded) Open() bool { return e.open }

// Stop ends the server and waits until its files are written.
func (e *Embedded) Stop() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// portFree reports, as an error, that the address can't be listened on. The server itself would only log it.
func portFree(address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use%s: change nats.embedded.listen (GATEWAY_NATS_EMBEDDED_LISTEN), or stop what listens there", address, ports.Holder(address))
	}

	if err != nil {
		return fmt.Errorf("nats.embedded.listen: %w", err)
	}

	return l.Close()
}

func readToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}

	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("%s is empty", path)
	}

	return token, nil
}

// logger hands the server's log to the gateway's. Fatalf does not exit: the caller sees that the server is not ready, and
// finds the reason in fatal.
type logger struct {
	log   *zap.SugaredLogger
	fatal atomic.Pointer[string]
	// broken: a stream could not be written and takes nothing any more.
	broken atomic.Bool
}

// reason is why the server did not start.
func (l *logger) reason() string {
	if text := l.fatal.Load(); text != nil {
		return *text
	}

	return "it takes longer than " + embeddedReady.String()
}

func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
	l.log.Error(text)
}

func (l *logger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, streamBroken) {
		l.broken.Store(true)
	}

	l.log.Error(text)
}

func (l *logger) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *logger) Warnf(format string, v ...any)   { l.log.Warnf(format, v...) }
func (l *logger) Debugf(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l *logger) Tracef(format string, v ...any)  { l.log.Debugf(format, v...) }
