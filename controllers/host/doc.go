// Package host keeps the pool connected to every declared Host and writes what is known of it into HostStatus. It imports
// the hypervisor port, resources and chain; the composition root builds it.
package host
