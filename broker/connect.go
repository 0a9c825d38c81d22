package broker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"gateway/config"
)

// A connection that is dead is found within pingInterval × maxPings = 10 s.
const (
	pingInterval = 5 * time.Second
	maxPings     = 2
)

// Connect connects to the embedded server, or to the one that cfg names. It returns at once: where the server is away, the
// connection comes up later, and stays up over restarts of it.
func Connect(cfg config.NATS, embedded *Embedded, logger *zap.Logger) (*nats.Conn, error) {
	log := logger.Named("nats")
	options := []nats.Option{
		nats.Name("gateway"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		nats.ReconnectJitter(100*time.Millisecond, time.Second),
		// What can't be sent at once is refused: the state is the outbox, not the client's buffer.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if !c.IsClosed() { // which is our own doing, and may be long over
				log.Warn("disconnected", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("reconnected", zap.String("url", c.ConnectedUrlRedacted())) }),
		// Two refusals in a row would close the connection for good; a token may be rotated on the server first.
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(asynchronous(log)),
	}

	url, more, err := target(cfg, embedded)
	if err != nil {
		return nil, err
	}

	connection, err := nats.Connect(url, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("error connecting to NATS at %s: %w", url, err)
	}

	return connection, nil
}

// Explain is what to tell of an error of a call: the client names the buffer that it must not use while no server is there.
func Explain(connection *nats.Conn, err error) error {
	if err == nil || connection.IsConnected() {
		return err
	}

	return fmt.Errorf("no NATS server answers at %s", strings.Join(connection.Servers(), ", ")) // without passwords
}

// logEvery bounds the lines about asynchronous errors: a subscription that overflows has thousands of them in a second.
const logEvery = 10 * time.Second

// asynchronous logs what no call returns, at most one line in logEvery.
func asynchronous(log *zap.Logger) nats.ErrHandler {
	var (
		next    atomic.Int64
		skipped atomic.Int64
	)

	return func(_ *nats.Conn, s *nats.Subscription, err error) {
		now, due := time.Now().UnixNano(), next.Load()
		if now < due || !next.CompareAndSwap(due, now+int64(logEvery)) {
			skipped.Add(1)

			return
		}

		subject := ""
		if s != nil {
			subject = s.Subject
		}

		log.Warn("asynchronous error", zap.String("subject", subject), zap.Int64("not logged before", skipped.Swap(0)), zap.Error(err))
	}
}

// target returns the URL and what is needed to be let in.
func target(cfg config.NATS, embedded *Embedded) (url string, options []nats.Option, err error) {
	if embedded != nil {
		options = append(options, nats.InProcessServer(embedded.server))

		if cfg.Embedded.TokenFile != "" {
			options = append(options, tokenFrom(cfg.Embedded.TokenFile))
		}

		return embedded.URL(), options, nil
	}

	if cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(cfg.Credentials))
	}

	if cfg.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(cfg.NKey)
		if err != nil {
			return "", nil, fmt.Errorf("nats.nkey: %w", err)
		}

		options = append(options, nkey)
	}

	if cfg.TokenFile != "" {
		if _, err := readToken(cfg.TokenFile); err != nil {
			return "", nil, fmt.Errorf("nats.tokenFile: %w", err)
		}

		options = append(options, tokenFrom(cfg.TokenFile))
	}

	if cfg.TLS.CA != "" {
		options = append(options, nats.RootCAs(cfg.TLS.CA))
	}

	if cfg.TLS.Certificate != "" {
		options = append(options, nats.ClientCert(cfg.TLS.Certificate, cfg.TLS.Key))
	}

	return cfg.URL, options, nil
}

// tokenFrom reads the token anew at each connection, so that it can be rotated. One that can't be read is sent empty and
// refused by the server, which the disconnect handler logs.
func tokenFrom(path string) nats.Option {
	return nats.TokenHandler(func() string {
		token, err := readToken(path)
		if err != nil {
			return ""
		}

		return token
	})
}
