// Package broker is how the gateway speaks NATS: the embedded server, the connection to it or to another one, the names of
// subjects, streams and buckets, and the claim on the prefix that keeps two gateways from publishing under one name. It
// imports config and internal/ports; sources/subscriptions, sinks and the composition root use it.
package broker
