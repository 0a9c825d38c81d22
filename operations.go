package gateway

import (
	"gateway/api"
	"gateway/api/requests"
	"gateway/broker"
)

// operations are what the operators' socket and the NATS service work on.
func (g *Gateway) operations() api.SocketOptions {
	return api.SocketOptions{
		DataDir: g.cfg.DataDir, Store: g.store, Admission: g.admission, Pacer: g.pacer, Logger: g.logger.Named("api"), Version: g.options.version,
		Documents: g.cfg.Documents,
	}
}

// requests is the NATS service, on the connection that runBroker made.
func (g *Gateway) requests() *requests.Service {
	nats := g.shared.connection.Load()

	return requests.New(requests.Options{
		Connection: nats.connection, Operations: api.NewOperations(g.operations()), Names: broker.Names{Prefix: g.cfg.NATS.Prefix},
		GatewayID: g.ID(), Version: g.options.version, Open: nats.open, Logger: g.logger.Named("requests"),
	})
}
