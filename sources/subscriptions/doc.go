// Package subscriptions takes NATS messages in: a Subscription document is a durable JetStream consumer, or a core NATS
// subscription where it names no stream. A JetStream message is acknowledged only once its event is durable; what can't be
// taken is delivered again with growing delays, then kept as a dead letter, and never left behind. It imports broker,
// store, resources, sources/intake and sources/payload; the composition root registers it.
package subscriptions
