// Package store builds the state that everything else shares: COSI's in-memory state with a durable engine behind it
// (bolt) or none (memory), the barrier that says when what was written is kept, the journal of what happened, and the
// admission layer that every writer from outside passes. It imports resources and config; sources, sinks, controllers and
// the API use it and do not know which engine runs.
package store
