package vm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gateway/hypervisor"
	"gateway/resources"
)

// reasonDrift is the reason in the journal of what was mended: nothing was declared anew.
const reasonDrift = "Drift"

// Reasons in the journal of what answers the end of a guest: it is the guest's own, and nobody's drift.
const (
	reasonGuestCrashed  = "GuestCrashed"
	reasonGuestShutdown = "GuestShutdown"
)

// drifted reports whether what is done now mends what others did: at the end of the last pass the VM was as declared, and
// nothing was declared since.
func (p *pass) drifted() bool {
	if p.current == nil || p.deleting() {
		return false
	}

	last := p.current.TypedSpec()
	converged := resources.FindCondition(last.Conditions, resources.ConditionConverged)

	return converged != nil && converged.Status == resources.ConditionTrue && last.ObservedRevision == p.revision() &&
		reflect.DeepEqual(last.Override, p.status.Override) && !p.restartWanted()
}

// redefinition says in words what a redefinition changes, with the values of what is a number.
func redefinition(from, to *hypervisor.DomainSpec, fields []string) string {
	parts := make([]string, 0, len(fields))

	for _, field := range fields {
		switch field {
		case hypervisor.FieldCPUs:
			parts = append(parts, fmt.Sprintf("%s %d → %d", field, from.CPUs, to.CPUs))
		case hypervisor.FieldMaxCPUs:
			parts = append(parts, fmt.Sprintf("%s %d → %d", field, from.MaxCPUs, to.MaxCPUs))
		case hypervisor.FieldMemory:
			parts = append(parts, fmt.Sprintf("%s %s → %s", field, from.Memory, to.Memory))
		case hypervisor.FieldMaxMemory:
			parts = append(parts, fmt.Sprintf("%s %s → %s", field, from.MaxMemory, to.MaxMemory))
		case hypervisor.FieldMark: // it is nobody's concern
		default:
			parts = append(parts, field)
		}
	}

	if len(parts) == 0 {
		return "redefine"
	}

	return "redefine: " + strings.Join(parts, ", ")
}

// followUp says in words what was done to the running domain, apart from a redefinition.
func followUp(changes []hypervisor.LiveChange) string {
	parts := make([]string, 0, len(changes))
	for _, c := range changes {
		parts = append(parts, c.String())
	}

	slices.Sort(parts)

	return strings.Join(parts, ", ")
}
