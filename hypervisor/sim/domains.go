package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// Domains implements hypervisor.Driver. The answer is ordered by name.
func (d *driver) Domains(ctx context.Context) (all []hypervisor.Domain, err error) {
	var domains []domain

	err = d.do(ctx, op{call: "Domains", doing: "listing the domains"}, func() error {
		domains = make([]domain, 0, len(d.host.domains))
		for _, dom := range d.host.domains {
			domains = append(domains, *dom)
		}

		return nil
	})

	// Without the lock, which others wait for: the specs in these copies never change.
	all = make([]hypervisor.Domain, len(domains))
	for i := range domains {
		all[i] = domains[i].observe()
	}

	slices.SortFunc(all, func(a, b hypervisor.Domain) int { return strings.Compare(a.Name, b.Name) })

	return all, err
}

// Domain implements hypervisor.Driver.
func (d *driver) Domain(ctx context.Context, uuid string) (seen hypervisor.Domain, err error) {
	err = d.do(ctx, op{call: "Domain", doing: "reading domain", subject: uuid}, func() error {
		dom, err := d.find(uuid)
		if err == nil {
			seen = dom.observe()
		}

		return err
	})

	return seen, err
}

// DomainByName implements hypervisor.Driver.
func (d *driver) DomainByName(ctx context.Context, name string) (seen hypervisor.Domain, err error) {
	err = d.do(ctx, op{call: "DomainByName", doing: "reading domain", subject: name}, func() error {
		dom := d.host.names[name]
		if dom == nil {
			return hypervisor.ErrNotFound
		}

		seen = dom.observe()

		return nil
	})

	return seen, err
}

// Inspect implements hypervisor.Driver.
func (d *driver) Inspect(ctx context.Context, uuid string) (seen hypervisor.Inspection, err error) {
	err = d.do(ctx, op{call: "Inspect", doing: "inspecting domain", subject: uuid}, func() error {
		dom, err := d.find(uuid)
		if err == nil {
			seen.Domain = dom.observe()
		}

		return err
	})

	return seen, err
}

// find returns a domain by UUID. The caller holds the host's lock.
func (d *driver) find(uuid string) (*domain, error) {
	if dom := d.host.domains[uuid]; dom != nil {
		return dom, nil
	}

	return nil, hypervisor.ErrNotFound
}

// ours returns a domain by UUID that carries our mark. The caller holds the host's lock.
func (d *driver) ours(uuid string) (*domain, error) {
	dom, err := d.find(uuid)
	if err == nil && dom.gateway != d.gateway {
		return nil, hypervisor.ErrForeign
	}

	return dom, err
}

// DefineDomain implements hypervisor.Driver.
func (d *driver) DefineDomain(ctx context.Context, spec hypervisor.DomainSpec) (result hypervisor.DefineResult, err error) {
	err = d.do(ctx, op{call: "DefineDomain", doing: "defining domain", subject: spec.UUID}, func() (err error) {
		result, err = d.define(spec)

		return err
	})

	return result, err
}

func (d *driver) define(spec hypervisor.DomainSpec) (hypervisor.DefineResult, error) {
	var none hypervisor.DefineResult

	if err := d.host.validate(&spec); err != nil {
		return none, err
	}

	wanted := spec.Normalised()
	dom := d.host.domains[spec.UUID]

	if other := d.host.names[spec.Name]; other != nil && other != dom {
		if other.gateway != d.gateway {
			return none, fmt.Errorf("%w: the name %q is taken by domain %s", hypervisor.ErrForeign, spec.Name, other.spec.UUID)
		}

		return none, fmt.Errorf("%w: the name %q is taken by domain %s", hypervisor.ErrInvalid, spec.Name, other.spec.UUID)
	}

	if dom == nil {
		result := hypervisor.DefineResult{Created: true}

		if len(spec.Last) > 0 {
			var last hypervisor.DomainSpec

			if err := json.Unmarshal(spec.Last, &last); err != nil {
				result.Anew = "the definition that was seen last can't be used: " + err.Error()
			}

			wanted.KeepForeign(&last)
		}

		dom = &domain{gateway: d.gateway, spec: &wanted, state: resources.StateStopped, reason: "unknown"}
		d.host.insert(dom)
		d.host.record(record{Domain: domainRecordOf(dom)})
		d.host.emit(hypervisor.EventDefined, dom, "added")

		return result, nil
	}

	if dom.gateway != d.gateway && !spec.MayTake(dom.gateway) {
		return none, hypervisor.ErrForeign
	}

	return d.redefine(dom, &wanted, spec.Insist)
}

// redefine changes what differs in a domain that is ours, or becomes ours by it.
func (d *driver) redefine(dom *domain, wanted *hypervisor.DomainSpec, insist bool) (hypervisor.DefineResult, error) {
	changed := wanted.Differences(dom.spec)
	wanted.KeepForeign(dom.spec)

	if dom.gateway != d.gateway && !slices.Contains(changed, hypervisor.FieldMark) {
		changed = append(changed, hypervisor.FieldMark)
	}

	if len(changed) == 0 && !dom.transient {
		return d.host.insist(dom, insist), nil
	}

	if slices.Contains(changed, hypervisor.FieldName) {
		if dom.live != nil {
			return hypervisor.DefineResult{}, fmt.Errorf("%w: a domain that is on cannot be renamed", hypervisor.ErrBusy)
		}

		delete(d.host.names, dom.spec.Name)
		d.host.names[wanted.Name] = dom
	}

	dom.gateway = d.gateway
	dom.transient = false
	dom.spec = wanted

	result := hypervisor.DefineResult{Changed: changed}

	if dom.live != nil {
		d.host.changeLive(dom, changed, insist, &result)
	}

	d.host.record(record{Domain: domainRecordOf(dom)})
	d.host.emit(hypervisor.EventDefined, dom, "updated")

	return result, nil
}

// validate refuses what no hypervisor takes.
func (h *Host) validate(spec *hypervisor.DomainSpec) error {
	switch {
	case spec.Name == "" || spec.UUID == "":
		return fmt.Errorf("%w: a domain needs a name and a UUID", hypervisor.ErrInvalid)
	case spec.CPUs < 1 || spec.CPUs > resources.MaxCPUs:
		return fmt.Errorf("%w: %d CPUs", hypervisor.ErrInvalid, spec.CPUs)
	case spec.Memory <= 0:
		return fmt.Errorf("%w: %d bytes of memory", hypervisor.ErrInvalid, spec.Memory)
	}

	return nil
}

// StartDomain implements hypervisor.Driver.
func (d *driver) StartDomain(ctx context.Context, uuid string, paused bool) error {
	return d.do(ctx, op{call: "StartDomain", doing: "starting domain", subject: uuid}, func() error {
		dom, err := d.ours(uuid)
		if err != nil || dom.live != nil {
			return err
		}

		if err := d.host.canStart(dom.spec); err != nil {
			return err
		}

		d.host.powerOn(dom, paused)

		return nil
	})
}

// canStart refuses a domain whose parts are missing, as a real hypervisor does.
func (h *Host) canStart(spec *hypervisor.DomainSpec) error {
	for _, nic := range spec.Interfaces {
		if nic.Network == "" {
			continue
		}

		if n := h.networks[nic.Network]; n == nil || !n.active {
			return fmt.Errorf("%w: there is no active network %q", hypervisor.ErrInvalid, nic.Network)
		}
	}

	for _, disk := range spec.Disks {
		name, inside := strings.CutPrefix(disk.Path, h.volumeDir()+"/")
		if inside && h.volumes[name] == nil {
			return fmt.Errorf("%w: there is no volume %q", hypervisor.ErrInvalid, name)
		}
	}

	if h.options.enforce && h.memoryInUse()+spec.Memory > h.options.capacity.Memory {
		return fmt.Errorf("%w: no memory is left for %s", hypervisor.ErrInvalid, spec.Memory)
	}

	return nil
}

// RequestShutdown implements hypervisor.Driver.
func (d *driver) RequestShutdown(ctx context.Context, uuid string) error {
	return d.do(ctx, op{call: "RequestShutdown", doing: "requesting the shutdown of domain", subject: uuid}, func() error {
		dom, err := d.ours(uuid)
		if err == nil && dom.live != nil {
			d.host.pressButton(dom)
		}

		return err
	})
}

// ForceOff implements hypervisor.Driver.
func (d *driver) ForceOff(ctx context.Context, uuid string) error {
	return d.do(ctx, op{call: "ForceOff", doing: "forcing off domain", subject: uuid}, func() error {
		dom, err := d.ours(uuid)
		if err == nil && dom.live != nil {
			d.host.powerOff(dom, resources.StateStopped, "destroyed")
		}

		return err
	})
}

// Pause implements hypervisor.Driver.
func (d *driver) Pause(ctx context.Context, uuid string) error {
	return d.pause(ctx, op{call: "Pause", doing: "pausing domain", subject: uuid}, true)
}

// Resume implements hypervisor.Driver.
func (d *driver) Resume(ctx context.Context, uuid string) error {
	return d.pause(ctx, op{call: "Resume", doing: "resuming domain", subject: uuid}, false)
}

func (d *driver) pause(ctx context.Context, o op, paused bool) error {
	return d.do(ctx, o, func() error {
		dom, err := d.ours(o.subject)
		if err != nil {
			return err
		}

		if dom.live == nil {
			return fmt.Errorf("%w: the domain is off", hypervisor.ErrBusy)
		}

		if !paused && dom.reason == reasonBroken {
			return hypervisor.ErrBroken
		}

		if (dom.state == resources.StatePaused) != paused {
			failed := dom.reason == hypervisor.ReasonIOError
			d.host.setPaused(dom, paused)

			// The guest tries again what it could not write.
			if failed && d.host.full {
				d.host.suspend(dom, hypervisor.ReasonIOError)
			}
		}

		return nil
	})
}

// UndefineDomain implements hypervisor.Driver.
func (d *driver) UndefineDomain(ctx context.Context, uuid string) error {
	return d.do(ctx, op{call: "UndefineDomain", doing: "undefining domain", subject: uuid}, func() error {
		if d.host.domains[uuid] == nil {
			return nil
		}

		dom, err := d.ours(uuid)
		if err != nil {
			return err
		}

		if dom.live != nil {
			return fmt.Errorf("%w: the domain is on", hypervisor.ErrBusy)
		}

		d.host.remove(dom)

		return nil
	})
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}

	return text
}

// Addresses implements hypervisor.Driver: the DHCP entries of the domain's interfaces, once the guest has booted, and the same
// from its agent where it has one.
func (d *driver) Addresses(ctx context.Context, uuid string) (addresses []resources.Address, err error) {
	err = d.do(ctx, op{call: "Addresses", doing: "reading the addresses of domain", subject: uuid}, func() error {
		dom, err := d.find(uuid)
		if err != nil || dom.live == nil || time.Now().Before(dom.lease) {
			return err
		}

		for _, nic := range dom.live.Interfaces {
			n := d.host.networks[nic.Network]
			if n == nil || !n.active {
				continue
			}

			entry, ok := n.entry(nic.MAC)
			if !ok {
				continue
			}

			// What a guest says of itself is what it got last.
			lease := orElse(dom.stale[nic.MAC], entry.Address)
			addresses = append(addresses, resources.Address{Address: lease, Source: "lease", Network: nic.Network, MAC: nic.MAC})

			if dom.live.GuestAgent {
				addresses = append(addresses, resources.Address{Address: lease, Source: "agent", Network: nic.Network, MAC: nic.MAC})
			}
		}

		return nil
	})

	return addresses, err
}
