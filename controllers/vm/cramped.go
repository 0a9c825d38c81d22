package vm

import (
	"gateway/hypervisor"
	"gateway/resources"
)

// cramped reports whether the VM was declared larger than its host has room for: placement keeps its old reservation, and
// the domain keeps its old size.
func (p *pass) cramped() bool {
	return p.domain != nil && p.placement != nil && p.placement.TypedSpec().Reason == resources.ReasonNotEnoughCapacity
}

// keepSize gives the wanted definition the size that the domain has.
func (p *pass) keepSize(wanted *hypervisor.DomainSpec) {
	has := &p.domain.Spec
	wanted.CPUs, wanted.MaxCPUs, wanted.Memory, wanted.MaxMemory = has.CPUs, has.MaxCPUs, has.Memory, has.MaxMemory
}
