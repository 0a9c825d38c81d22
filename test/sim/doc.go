// Package sim simulates the whole gateway under virtual time: the real COSI runtime, controllers, sources and status sink, on
// the simulated hypervisor, on a disk in memory with the bolt engine's own queue, and with a broker in memory. A seed decides
// the inputs and the faults, among them kills of the process at any point between two writes. docs/simulator.md tells how
// to use it. It is all tests; nothing imports it.
package sim
