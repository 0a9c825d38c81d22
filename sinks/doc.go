// Package sinks is the folder of what goes out: each subpackage watches resources or the journal and publishes to NATS. A
// sink keeps nothing of its own that it could not rebuild: the state is the outbox. Sinks import broker, store and
// resources; the composition root runs them.
package sinks
