package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/hypervisor"
	"gateway/resources"
)

// vm says when the changes of a VM take effect, and what of its domain is not as declared.
func (d *differ) vm(ctx context.Context, diff *ObjectDiff, current resource.Resource, desired *resources.VMConfig) error {
	declared := current.DeepCopy().(*resources.VMConfig) //nolint:forcetypeassert // one type a kind
	*declared.TypedSpec() = desired.TypedSpec().DeepCopy()

	if d.Planner == nil {
		return nil
	}

	host, plan, err := d.Planner.PlanVM(ctx, declared)
	diff.Host = host

	switch {
	case errors.Is(err, hypervisor.ErrUnreachable):
		diff.Notes = append(diff.Notes, fmt.Sprintf("host %s can't be asked: what is said is of the documents alone", host))
		plan = planWithout(current.Spec(), desired.TypedSpec())
	case err != nil:
		return fmt.Errorf("error planning VM %q: %w", diff.Name, err)
	case host == "":
		diff.Notes = append(diff.Notes, "is on no host yet")

		return nil
	case plan.Foreign:
		diff.Notes = append(diff.Notes, fmt.Sprintf("domain %s on host %s is not this gateway's: nothing is done to it", plan.Observed.Name, host))

		return nil
	case !plan.Exists:
		diff.State = resources.StateMissing
	default:
		diff.State = plan.Observed.State
	}

	if plan.On {
		for i := range diff.Fields {
			setEffect(&diff.Fields[i], plan.Changes, desired.TypedSpec())
		}
	}

	d.drift(diff, &plan, desired.TypedSpec())

	return nil
}

// planWithout is a plan of what the documents alone tell: as if the domain ran, and was as declared.
func planWithout(was any, now *resources.VMConfigSpec) hypervisor.DomainPlan {
	before, after := domainOf(was.(*resources.VMConfigSpec)), domainOf(now) //nolint:forcetypeassert // a VM's specification
	all := hypervisor.HotPlug{CPUs: true, Memory: true, Balloon: true, Devices: true}

	return hypervisor.DomainPlan{Exists: true, On: true, Changes: hypervisor.LiveChanges(&before, &after, all)}
}

// domainOf is what of a domain a document tells.
func domainOf(s *resources.VMConfigSpec) hypervisor.DomainSpec {
	d := hypervisor.DomainSpec{
		CPUs: s.CPUs, MaxCPUs: s.MaxCPUs, Memory: s.Memory, MaxMemory: s.MaxMemory, Firmware: s.Firmware, Boot: s.Boot,
		Graphics: s.Graphics, GuestAgent: s.GuestAgent,
	}

	for _, disk := range s.Disks {
		d.Disks = append(d.Disks, hypervisor.DomainDisk{Name: disk.Name, Path: disk.Path, CDROM: strings.HasSuffix(disk.Path, ".iso")})
	}

	for i, n := range s.Interfaces {
		mac := n.MAC
		if mac == "" {
			mac = fmt.Sprintf("interface %d", i)
		}

		d.Interfaces = append(d.Interfaces, hypervisor.DomainInterface{MAC: mac, Network: n.Network})
	}

	return d.Normalised()
}

// atOnce are the fields below a disk that are no business of the domain's: a volume grows under a guest that runs.
var atOnce = []string{".onDelete", ".size"}

// setEffect says when the change of one field takes effect on a domain that is on.
func setEffect(f *FieldDiff, changes []hypervisor.LiveChange, spec *resources.VMConfigSpec) {
	field, item := ownedField(f.Path)

	if field == "cloudInit" {
		f.Effect, f.Why = EffectRestart, "a guest reads it when it boots"

		return
	}

	for _, c := range changes {
		if c.Field != field || field == hypervisor.FieldDisks && c.Item != item {
			continue
		}

		if c.Action == hypervisor.ActionSet && field == hypervisor.FieldDisks && slices.ContainsFunc(atOnce, func(s string) bool { return strings.HasSuffix(f.Path, s) }) {
			continue
		}

		if f.Why = c.Reason; c.Effect == hypervisor.EffectRestart {
			f.Effect = EffectRestart

			return
		}
	}

	if field == "placement" && f.Why == "" {
		f.Why = "a VM that may not stay where it is moves: it is stopped, and started elsewhere"
	}

	if field == "power" && spec.Power == resources.PowerStopped {
		f.Why = "the guest is shut down"
	}
}

// ownedField is the field of a VM's document that a path is in, and which element of it: disks, root.
func ownedField(path string) (field, item string) {
	rest, inside := strings.CutPrefix(path, "spec.")
	if !inside {
		return "", ""
	}

	if end := strings.IndexAny(rest, ".["); end >= 0 {
		field, rest = rest[:end], rest[end:]
	} else {
		return rest, ""
	}

	if name, inside := strings.CutPrefix(rest, "["); inside {
		item, _, _ = strings.Cut(name, "]")
	}

	return field, item
}

// drift adds the fields that the documents leave alone and that somebody changed on the hypervisor.
func (d *differ) drift(diff *ObjectDiff, plan *hypervisor.DomainPlan, spec *resources.VMConfigSpec) {
	changed := map[string]bool{}

	for _, f := range diff.Fields {
		field, _ := ownedField(f.Path)
		changed[field] = true
	}

	// What runs may be behind its definition, which is as declared.
	behind := map[string]*hypervisor.LiveChange{}
	for i := range plan.Changes {
		behind[plan.Changes[i].Field] = &plan.Changes[i]
	}

	fields := slices.Clone(plan.Changed)

	for _, c := range plan.Changes {
		if !slices.Contains(fields, c.Field) {
			fields = append(fields, c.Field)
		}
	}

	for _, field := range fields {
		// A maximum that is not declared follows its amount.
		if changed[field] || field == hypervisor.FieldMaxMemory && changed["memory"] || field == hypervisor.FieldMaxCPUs && changed["cpus"] {
			continue
		}

		f := FieldDiff{Path: "spec." + field, Effect: EffectLive, Drift: true, Why: "was changed on the hypervisor"}
		f.From, f.To = valuesOf(field, &plan.Observed.Spec, spec)

		if !slices.Contains(plan.Changed, field) {
			f.Why = "is defined, and not in effect yet"
		}

		if c := behind[field]; c != nil && plan.On {
			f.Effect = string(c.Effect)

			if c.Reason != "" {
				f.Why += ": " + c.Reason
			}
		}

		diff.Fields = append(diff.Fields, f)
	}

	if diff.Action == DiffNone && len(diff.Fields) > 0 {
		diff.Action = DiffChange
	}
}

// valuesOf returns the value of a simple field on the hypervisor and in the document.
func valuesOf(field string, observed *hypervisor.DomainSpec, spec *resources.VMConfigSpec) (from, to any) {
	switch field {
	case hypervisor.FieldCPUs:
		return observed.CPUs, spec.CPUs
	case hypervisor.FieldMemory:
		return observed.Memory, spec.Memory
	case hypervisor.FieldDescription:
		return observed.Description, spec.Description
	case hypervisor.FieldFirmware:
		return observed.Firmware, spec.Firmware
	case hypervisor.FieldGraphics:
		return observed.Graphics, spec.Graphics
	case hypervisor.FieldGuestAgent:
		return observed.GuestAgent, spec.GuestAgent
	default:
		return nil, nil
	}
}
