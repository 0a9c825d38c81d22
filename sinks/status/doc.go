// Package status publishes VMStatus and HostStatus on every change: in order for each object, at least once, the newest
// only where NATS is slow or away, and last of all that the object is gone. The state is its outbox: whatever has no
// acknowledgement for its current version is published, at a start everything. The composition root runs it.
package status
