// Package hypervisor is the port through which controllers reach hypervisors, and the pool of connections by host. Its
// subpackages are the drivers: libvirt for real ones, sim for a simulated one. It imports only resources; controllers, the
// domainevents source and the composition root call it.
package hypervisor
