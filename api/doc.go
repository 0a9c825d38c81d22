// Package api is how people and programs reach a running gateway: the HTTP listener (webhooks, health, readiness,
// metrics), and the unix socket with the COSI state over gRPC and the operations of the command line. It imports store,
// config and resources; the composition root runs it, and cmd/gateway uses its client.
package api
