// Package store builds the state that everything else shares: COSI's in-memory state with a durable engine behind it
// (bolt) or none (memory), the barrier that says when what was written is kept, the journal of what happened, and the
// admission layer that every writer from outside passes. It imports resources and config; sources, sinks, controllers and
// the API use it and do not know which engine runs.
//
// With bolt, COSI calls a backing store before a write can be read. It only queues: all namespaces and the journal share one
// ordered queue, of which a committer writes prefixes, one transaction and one fsync each. Each prefix holds the causes of
// all that it holds, so a crash loses the newest writes and never one in the middle; who has to be sure waits at the barrier.
package store
