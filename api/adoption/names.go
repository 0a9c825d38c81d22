package adoption

import (
	"fmt"
	"strings"

	"gateway/resources"
)

// maxName is the length of an RFC 1123 label.
const maxName = 63

// nameOf returns the name of a domain's VM, and the VM of this name that is declared and has no domain of its own; nil:
// none is.
func (m *maker) nameOf(d *Domain) (string, *resources.VMConfig) {
	wanted := d.VM
	if wanted == "" {
		wanted = d.Inspection.VM // as its mark says
	}

	if wanted == "" || resources.ValidateName(wanted) != nil {
		wanted = label(d.Name, "vm")
	}

	if before := m.declared.VMs[wanted]; before != nil && m.waits(wanted, d) {
		delete(m.declared.VMs, wanted) // it has its domain now

		return wanted, before
	}

	return free(wanted, m.names), nil
}

// waits reports whether a declared VM has no domain of its own, so that this one may be meant.
func (m *maker) waits(vm string, d *Domain) bool {
	status := m.declared.Statuses[vm]

	return status == nil || status.TypedSpec().DomainUUID == "" || status.TypedSpec().DomainUUID == d.UUID
}

// label makes an RFC 1123 label of a name: Windows 10 becomes windows-10. What has nothing to make one of is named otherwise.
func label(name, otherwise string) string {
	var out strings.Builder

	for _, c := range strings.ToLower(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			out.WriteRune(c)
		case out.Len() > 0 && !strings.HasSuffix(out.String(), "-"):
			out.WriteByte('-')
		}
	}

	text := out.String()
	text = strings.Trim(text[:min(len(text), maxName)], "-")

	if text == "" {
		return otherwise
	}

	return text
}

// free returns the name, or the first one with a number behind it that nobody has.
func free(name string, taken map[string]bool) string {
	candidate := name

	for n := 2; taken[candidate]; n++ {
		suffix := fmt.Sprintf("-%d", n)
		candidate = strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-") + suffix
	}

	return candidate
}
