// Package chaintest runs controllers of the finalizer chain on an in-memory state and simulated hosts, for tests inside a
// testing/synctest bubble. It has a stand-in for the vm controller that takes and releases finalizers in the same order.
// Only tests import it.
package chaintest
