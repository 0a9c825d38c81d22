// Package resync is the slow safety net: it asks the controllers to look at every VM again once in an interval, a bounded
// slice of them at a time, by writing Resync resources that they map. It imports resources; the composition root builds it.
package resync
