package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gateway/broker"
	"gateway/sinks/actions"
	"gateway/sinks/events"
	"gateway/sinks/status"
)

const (
	// brokerRetry is the pause between attempts to set up an external server that is away.
	brokerRetry = 2 * time.Second
	// brokerCheck is how often readiness asks for the server.
	brokerCheck = 5 * time.Second
	// maxAsync is more than all sinks have in flight together.
	maxAsync = 1024
)

// runBroker runs the embedded server, if it is the one to use, the claim on the prefix, and the sinks, until ctx ends.
func (g *Gateway) runBroker(ctx context.Context) error {
	var embedded *broker.Embedded

	if g.cfg.NATS.URL == "" {
		var err error

		embedded, err = broker.StartEmbedded(broker.EmbeddedOptions{
			Listen: g.cfg.NATS.Embedded.Listen, TokenFile: g.cfg.NATS.Embedded.TokenFile, DataDir: g.cfg.DataDir, Logger: g.logger,
		})
		if err != nil {
			return err
		}

		defer embedded.Stop()

		g.logger.Info("the embedded NATS server listens", zap.String("url", embedded.URL()))
	}

	g.announce()

	connection, err := broker.Connect(g.cfg.NATS, embedded, g.logger)
	if err != nil {
		return err
	}
	defer connection.Close()

	js, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(maxAsync))
	if err != nil {
		return fmt.Errorf("error using JetStream: %w", err)
	}

	g.shared.connection.Store(&natsConnection{connection: connection, js: js, open: embedded != nil && embedded.Open()})

	claim, err := g.claim(ctx, connection, js)
	if err != nil || claim == nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return claim.Keep(ctx, g.ID()) })
	group.Go(func() error { return g.checkBroker(ctx, embedded, connection, js) })
	group.Go(func() error { return g.requests().Run(ctx) })

	for _, sink := range g.sinks(connection, js) {
		group.Go(func() error { return sink.Run(ctx) })
	}

	return group.Wait()
}

// announce says that the gateway runs: HTTP and the socket have had their ports since it was built, and now NATS has its own.
func (g *Gateway) announce() {
	g.logger.Info("the gateway runs", zap.String("id", g.ID()), zap.String("version", g.options.version),
		zap.String("http", g.HTTPAddr()), zap.String("socket", g.socket.Path()), zap.Strings("documents", g.cfg.Documents))
}

// claim takes the prefix and makes the streams. While an external server is away it tries again; it returns nil when ctx
// ends first.
func (g *Gateway) claim(ctx context.Context, connection *nats.Conn, js jetstream.JetStream) (*broker.Claim, error) {
	names := broker.Names{Prefix: g.cfg.NATS.Prefix}

	for logged := false; ; {
		claim, err := g.setUp(ctx, js, names)
		if err == nil || errors.Is(err, broker.ErrClaimed) {
			return claim, err
		}

		if ctx.Err() != nil {
			return nil, nil
		}

		err = broker.Explain(connection, err)
		g.broker.set(err)

		if !logged {
			g.logger.Warn("NATS is not usable yet; statuses are published once it is", zap.Error(err))

			logged = true
		}

		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(brokerRetry):
		}
	}
}

func (g *Gateway) setUp(ctx context.Context, js jetstream.JetStream, names broker.Names) (*broker.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerCheck)
	defer cancel()

	claim, err := broker.TakeClaim(ctx, js, names, g.ID(), g.logger)
	if err != nil {
		return nil, err
	}

	for _, stream := range names.Streams() {
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return nil, fmt.Errorf("error making the stream %s: %w", stream.Name, err)
		}
	}

	return claim, nil
}

// checkBroker keeps readiness up to date, and the embedded server's JetStream alive; embedded is nil for an external server.
func (g *Gateway) checkBroker(ctx context.Context, embedded *broker.Embedded, connection *nats.Conn, js jetstream.JetStream) error {
	ticker := time.NewTicker(brokerCheck)
	defer ticker.Stop()

	for {
		var revived error
		if embedded != nil {
			revived = embedded.Revive()
		}

		limited, cancel := context.WithTimeout(ctx, brokerCheck)
		_, err := js.AccountInfo(limited)

		cancel()

		if !connection.IsConnected() {
			err = cmp.Or(err, errors.New("not connected"))
		}

		g.broker.set(cmp.Or(revived, broker.Explain(connection, err)))

		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sink is what publishes.
type sink interface {
	Run(ctx context.Context) error
}

func (g *Gateway) sinks(connection *nats.Conn, js jetstream.JetStream) []sink {
	names, logger := broker.Names{Prefix: g.cfg.NATS.Prefix}, g.logger.Named("sinks")

	return []sink{
		status.New(status.Options{
			State: g.store.State(), Barrier: g.store, Publisher: js, Names: names, GatewayID: g.ID(),
			Logger: logger, Metrics: g.shared.sinks.For("status"),
		}),
		events.New(events.Options{
			Journal: g.store.Journal(), Barrier: g.store, Stream: events.JetStream{JetStream: js}, Names: names, GatewayID: g.ID(),
			Logger: logger, Metrics: g.shared.sinks.For("events"),
		}),
		actions.New(actions.Options{
			State: g.store.State(), Barrier: g.store, Journal: g.store.Journal(), Names: names,
			Publisher: actions.NATS{Connection: connection, JetStream: js}, Logger: logger, Metrics: g.shared.sinks.For("actions"),
		}),
	}
}
