// Package domainevents is the source of what happens to domains: it subscribes to the lifecycle events of every declared host
// and writes one DomainEvent per domain. Events are lost while a host is not connected, so after each connection it subscribes
// first, then lists, and makes the controllers look at every domain of ours again. It imports resources, hypervisor, store and
// intake; the composition root registers it.
package domainevents
