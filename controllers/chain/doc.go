// Package chain holds what the controllers of the finalizer chain (placement, network, vm) and their neighbours share:
// reading a resource that may be gone, holding and releasing it by finalizer, dropping an own output, mapping an event's
// target to VMs, and remembering what caused a reconcile. Only controllers import it.
package chain
