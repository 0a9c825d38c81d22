package sim

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// hotPlug is what can be changed of a domain that is on.
var hotPlug = hypervisor.HotPlug{CPUs: true, Memory: true, Balloon: true, Devices: true}

// deaf reports whether the guest of a domain that is on neither hears the power button nor lets go of anything: it is
// paused, it still boots, or it does not care.
func (h *Host) deaf(d *domain) bool {
	return d.stubborn || h.options.never || d.state != resources.StateRunning || time.Now().Before(d.lease)
}

// changeLive takes over from the definition into the running domain what needs no restart: of the fields, or, where the
// caller insists, of all.
func (h *Host) changeLive(d *domain, fields []string, insist bool, result *hypervisor.DefineResult) {
	live := d.live.Normalised()
	live.Claim(d.spec)
	live.Name, live.Description = d.spec.Name, d.spec.Description
	live.VM, live.Revision = d.spec.VM, d.spec.Revision

	for _, c := range hypervisor.LiveChanges(&live, d.spec, hotPlug) {
		if c.Effect != hypervisor.EffectLive || !insist && !slices.Contains(fields, c.Field) {
			continue
		}

		if err := h.liveStep(d, &live, c); err != nil {
			result.Refused = append(result.Refused, fmt.Sprintf("%s: %s", c, err))

			continue
		}

		result.Live = append(result.Live, c)
	}

	d.live = &live
	if len(d.restartRequired()) == 0 && len(d.waitsForGuest()) == 0 {
		d.live = d.spec
	}

	result.RestartRequired = d.restartRequired()
}

// insist brings a running domain to its definition, which has not changed.
func (h *Host) insist(d *domain, insist bool) (result hypervisor.DefineResult) {
	result.RestartRequired = d.restartRequired()

	if d.live == nil || d.live == d.spec || !insist {
		return result
	}

	before := d.live

	if h.changeLive(d, nil, true, &result); !reflect.DeepEqual(before, d.live) {
		h.record(record{Domain: domainRecordOf(d)})
	}

	return result
}

// liveStep makes one change of what runs. What the guest has to go along with is only asked for.
func (h *Host) liveStep(d *domain, live *hypervisor.DomainSpec, c hypervisor.LiveChange) error {
	if c.Action != hypervisor.ActionDetach {
		if err := h.canStart(d.spec); err != nil {
			return err
		}
	}

	asks := c.Action == hypervisor.ActionDetach || c.Field == hypervisor.FieldMemory && d.spec.Memory < live.Memory
	if asks && h.deaf(d) {
		return nil
	}

	switch c.Field {
	case hypervisor.FieldCPUs:
		live.CPUs = d.spec.CPUs
	case hypervisor.FieldMemory:
		live.Memory = d.spec.Memory
	case hypervisor.FieldDisks:
		live.Disks = replaced(live.Disks, d.spec.Disks, func(disk hypervisor.DomainDisk) bool { return disk.Name == c.Item })
	case hypervisor.FieldInterfaces:
		live.Interfaces = replaced(live.Interfaces, d.spec.Interfaces, func(nic hypervisor.DomainInterface) bool { return nic.MAC == c.Item })
	}

	return nil
}

// replaced returns the running devices with the one in question as it is defined, or without it.
func replaced[T any](running, defined []T, is func(T) bool) []T {
	devices := slices.DeleteFunc(slices.Clone(running), is)

	if i := slices.IndexFunc(defined, is); i >= 0 {
		devices = append(devices, defined[i])
	}

	return devices
}

// restartRequired returns the fields in which the running domain differs from its definition.
func (d *domain) restartRequired() []string {
	if d.live == nil || d.live == d.spec {
		return nil
	}

	return hypervisor.RestartRequired(d.live, d.spec, hotPlug)
}

// waitsForGuest returns the fields that the guest has yet to go along with.
func (d *domain) waitsForGuest() []string {
	if d.live == nil || d.live == d.spec {
		return nil
	}

	return hypervisor.WaitsForGuest(d.live, d.spec, hotPlug)
}

// PlanDomain implements hypervisor.Driver.
func (d *driver) PlanDomain(ctx context.Context, spec hypervisor.DomainSpec) (plan hypervisor.DomainPlan, err error) {
	err = d.do(ctx, op{call: "PlanDomain", doing: "planning domain", subject: spec.UUID}, func() error {
		dom := d.host.domains[spec.UUID]
		if dom == nil {
			return nil
		}

		wanted := spec.Normalised()
		changed := wanted.Differences(dom.spec)
		wanted.KeepForeign(dom.spec)

		plan = hypervisor.DomainPlan{
			Exists: true, On: dom.live != nil, Observed: dom.observe(),
			Foreign: dom.gateway != d.gateway && !spec.MayTake(dom.gateway),
			Changed: slices.DeleteFunc(changed, func(f string) bool { return f == hypervisor.FieldMark }),
		}

		if plan.On {
			live := dom.live.Normalised()
			live.Claim(&wanted)
			plan.Changes = hypervisor.LiveChanges(&live, &wanted, hotPlug)
		}

		return nil
	})

	return plan, err
}
