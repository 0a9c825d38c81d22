// Package events publishes what the journal says was taken in and what could not be processed: attributes and a digest, the
// data only where the declaration says `publish: full`. The journal is its outbox, and the last message of each stream
// says how far it came, so that nothing of its own has to be kept. The composition root runs it.
package events
