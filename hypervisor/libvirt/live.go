//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// changeLive brings into effect on a running domain what needs no restart: of the fields, or, where the caller insists, of
// all. What the hypervisor refuses is no error: the field is then one that needs a restart. Whether the guest went along is
// read afterwards, and later again, and never taken for granted.
func (d *driver) changeLive(dom *libvirt.Domain, wanted *hypervisor.DomainSpec, fields []string, insist bool, result *hypervisor.DefineResult) error {
	live, config, err := readBoth(dom)
	if err != nil {
		return err
	}

	for _, c := range definition.LiveChanges(live, config) {
		if c.Effect != hypervisor.EffectLive || !insist && !slices.Contains(fields, c.Field) {
			continue
		}

		err := liveStep(dom, live, config, wanted, c)

		switch {
		case err == nil:
			result.Live = append(result.Live, c)
		case isLost(err):
			return err
		default:
			result.Refused = append(result.Refused, fmt.Sprintf("%s: %s", c, messageOf(err)))
		}
	}

	if len(result.Live) > 0 {
		if live, config, err = readBoth(dom); err != nil {
			return err
		}
	}

	result.RestartRequired = definition.RestartRequired(live, config)

	return nil
}

// liveStep asks for one change.
func liveStep(dom *libvirt.Domain, live, config *libvirtxml.Domain, wanted *hypervisor.DomainSpec, c hypervisor.LiveChange) error {
	switch c.Field {
	case hypervisor.FieldCPUs:
		return dom.SetVcpusFlags(uint(wanted.CPUs), libvirt.DOMAIN_VCPU_LIVE)
	case hypervisor.FieldMemory:
		return dom.SetMemoryFlags(uint64(wanted.Memory/resources.KiB), libvirt.DOMAIN_MEM_LIVE)
	}

	device, err := definition.DeviceOf(live, config, c)
	if err != nil {
		return err
	}

	switch c.Action {
	case hypervisor.ActionAttach:
		return attach(dom, device)
	case hypervisor.ActionDetach:
		// It returns when the guest was asked. The other call waits for the guest, up to five seconds of everybody's time, and
		// says nothing about whether it came.
		return dom.DetachDeviceAlias(device.Alias, libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
	default:
		return dom.UpdateDeviceFlags(device.XML, libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
	}
}

// attach plugs a device in where the definition has it, or anywhere: the place may still be that of a device that goes.
func attach(dom *libvirt.Domain, device definition.Device) error {
	err := dom.AttachDeviceFlags(device.XML, libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
	if err == nil || isLost(err) {
		return err
	}

	if dom.AttachDeviceFlags(device.Anywhere, libvirt.DOMAIN_DEVICE_MODIFY_LIVE) == nil {
		return nil
	}

	return err
}

// isLost reports whether an error says that the connection is lost, rather than that something is refused.
func isLost(err error) bool {
	return errors.Is(classify(err), hypervisor.ErrConnectionLost)
}

// messageOf is libvirt's message alone.
func messageOf(err error) string {
	text := classify(err).Error()
	if _, after, found := strings.Cut(text, ": "); found {
		return after
	}

	return text
}

// PlanDomain implements hypervisor.Driver.
func (d *driver) PlanDomain(ctx context.Context, spec hypervisor.DomainSpec) (hypervisor.DomainPlan, error) {
	r := request{doing: "planning domain", subject: spec.Name, lane: d.reads}

	return call(ctx, d, r, func(c *libvirt.Connect) (hypervisor.DomainPlan, error) {
		dom, err := c.LookupDomainByUUIDString(spec.UUID)
		if isCode(err, libvirt.ERR_NO_DOMAIN) {
			return hypervisor.DomainPlan{}, nil
		}

		if err != nil {
			return hypervisor.DomainPlan{}, err
		}
		defer freeDomain(dom)

		wanted := spec.Normalised()

		return d.plan(dom, &wanted, &spec)
	})
}

// plan is what redefine would do.
func (d *driver) plan(dom *libvirt.Domain, wanted, asked *hypervisor.DomainSpec) (hypervisor.DomainPlan, error) {
	plan := hypervisor.DomainPlan{Exists: true}

	doc, mark, err := readDefinition(dom)
	if err != nil {
		return plan, err
	}

	if plan.Observed, err = d.observe(dom, nil); err != nil {
		return plan, err
	}

	plan.Foreign = mark.Gateway != d.gateway && !asked.MayTake(mark.Gateway)
	if doc.Name != wanted.Name {
		plan.Changed = append(plan.Changed, hypervisor.FieldName)
	}

	plan.Changed = append(plan.Changed, definition.Differences(doc.Domain, wanted)...)

	state, _, err := dom.GetState()
	if err != nil || !isOn(state) {
		return plan, err
	}

	plan.On = true

	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return plan, err
	}

	live, err := definition.Parse(text)
	if err != nil {
		return plan, err
	}

	// What would be defined is only in our memory.
	definition.Apply(doc.Domain, wanted, d.madeOf())
	plan.Changes = definition.LiveChanges(live, doc.Domain)

	return plan, nil
}

// readBoth reads what runs of a domain, and what it is defined as.
func readBoth(dom *libvirt.Domain) (live, config *libvirtxml.Domain, err error) {
	for _, half := range []struct {
		flags libvirt.DomainXMLFlags
		doc   **libvirtxml.Domain
	}{{0, &live}, {libvirt.DOMAIN_XML_INACTIVE, &config}} {
		text, err := dom.GetXMLDesc(half.flags)
		if err != nil {
			return nil, nil, err
		}

		if *half.doc, err = definition.Parse(text); err != nil {
			return nil, nil, err
		}
	}

	return live, config, nil
}
