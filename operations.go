package gateway

import (
	"github.com/nats-io/nats.go/jetstream"

	"gateway/api"
	"gateway/api/requests"
	"gateway/broker"
)

// operations are what the operators' socket and the NATS service work on.
func (g *Gateway) operations() api.SocketOptions {
	return api.SocketOptions{
		DataDir: g.cfg.DataDir, Store: g.store, Admission: g.admission, Pacer: g.pacer, Logger: g.logger.Named("api"), Version: g.options.version,
		Documents: g.cfg.Documents,
		Broker:    &broker.Reader{JetStream: g.jetStream, Names: broker.Names{Prefix: g.cfg.NATS.Prefix}},
	}
}

// jetStream is the connection that runBroker made, nil until it did.
func (g *Gateway) jetStream() jetstream.JetStream {
	if c := g.shared.connection.Load(); c != nil {
		return c.js
	}

	return nil
}

// requests is the NATS service, on the connection that runBroker made.
func (g *Gateway) requests() *requests.Service {
	nats := g.shared.connection.Load()

	return requests.New(requests.Options{
		Connection: nats.connection, Operations: api.NewOperations(g.operations()), Names: broker.Names{Prefix: g.cfg.NATS.Prefix},
		GatewayID: g.ID(), Version: g.options.version, Open: nats.open, Logger: g.logger.Named("requests"),
	})
}
