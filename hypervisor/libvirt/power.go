//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// onOurs runs a change of one of our domains. Nobody else changes it through this driver meanwhile.
func (d *driver) onOurs(ctx context.Context, doing, uuid string, fn func(*libvirt.Connect, *libvirt.Domain) error) error {
	r := request{doing: doing, subject: uuid, lane: d.writes, key: domainKey(uuid)}

	return do(ctx, d, r, func(c *libvirt.Connect) error {
		dom, err := c.LookupDomainByUUIDString(uuid)
		if err != nil {
			return err
		}
		defer freeDomain(dom)

		_, mark, err := readDefinition(dom)
		if err != nil {
			return err
		}

		if mark.Gateway != d.gateway {
			return hypervisor.ErrForeign
		}

		return fn(c, dom)
	})
}

// unlessIn runs step for a domain that is not in the wanted state, and calls it success when step failed because somebody
// else was faster.
func unlessIn(dom *libvirt.Domain, wanted func(libvirt.DomainState) bool, step func() error) error {
	state, _, err := dom.GetState()
	if err != nil || wanted(state) {
		return err
	}

	failure := step()
	if failure == nil || !isCode(failure, libvirt.ERR_OPERATION_INVALID, libvirt.ERR_OPERATION_FAILED, libvirt.ERR_NO_DOMAIN) {
		return failure
	}

	if state, _, err = dom.GetState(); err == nil && wanted(state) {
		return nil
	}

	return failure
}

func isOff(state libvirt.DomainState) bool { return !isOn(state) }

// StartDomain implements hypervisor.Driver.
func (d *driver) StartDomain(ctx context.Context, uuid string, paused bool) error {
	return d.onOurs(ctx, "starting domain", uuid, func(c *libvirt.Connect, dom *libvirt.Domain) error {
		return unlessIn(dom, isOn, func() error {
			err := d.start(dom, paused)
			if !d.lacksKVM(err) {
				return err
			}

			if err := d.emulate(c, dom); err != nil {
				return err
			}

			return d.start(dom, paused)
		})
	})
}

func (d *driver) start(dom *libvirt.Domain, paused bool) error {
	if !paused {
		return dom.Create()
	}

	if d.madeOf().IsQEMU() {
		return dom.CreateWithFlags(libvirt.DOMAIN_START_PAUSED)
	}

	// The test driver can't start paused. It has no guests that could run meanwhile.
	if err := dom.Create(); err != nil {
		return err
	}

	return dom.Suspend()
}

// lacksKVM reports whether a start failed because QEMU could not use KVM, although libvirt offers it: libvirt looks as
// root, QEMU runs as somebody else, and virtual machines often show a /dev/kvm that does not work.
func (d *driver) lacksKVM(err error) bool {
	if err == nil || !d.madeOf().IsQEMU() {
		return false
	}

	text := err.Error()

	return strings.Contains(text, "failed to initialize kvm") || strings.Contains(text, "Could not access KVM kernel module")
}

// emulate makes a domain one that needs no KVM, and notes that this host has none.
func (d *driver) emulate(c *libvirt.Connect, dom *libvirt.Domain) error {
	d.mu.Lock()
	d.host = d.host.Emulated()
	host := d.host
	d.mu.Unlock()

	doc, _, err := readDefinition(dom)
	if err != nil {
		return err
	}

	definition.Emulate(doc.Domain, host)

	return define(c, doc.Domain)
}

// RequestShutdown implements hypervisor.Driver.
func (d *driver) RequestShutdown(ctx context.Context, uuid string) error {
	// Only QEMU knows ways of shutting down; elsewhere there is one.
	flags := libvirt.DOMAIN_SHUTDOWN_DEFAULT
	if d.madeOf().IsQEMU() {
		flags = libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN
	}

	return d.onOurs(ctx, "requesting the shutdown of domain", uuid, func(_ *libvirt.Connect, dom *libvirt.Domain) error {
		// A guest that is on its way off needs no second word; one that is paused hears none.
		return unlessIn(dom, func(s libvirt.DomainState) bool { return s != libvirt.DOMAIN_RUNNING && s != libvirt.DOMAIN_BLOCKED }, func() error {
			return dom.ShutdownFlags(flags)
		})
	})
}

// unlessOff runs step for a domain that is on. While libvirt takes a domain down it is no longer active, but not yet in
// the state of being off: that counts as off too.
func unlessOff(dom *libvirt.Domain, step func() error) error {
	on, err := dom.IsActive()
	if err != nil || !on {
		return err
	}

	failure := step()
	if failure == nil || !isCode(failure, libvirt.ERR_OPERATION_INVALID, libvirt.ERR_OPERATION_FAILED, libvirt.ERR_NO_DOMAIN) {
		return failure
	}

	if on, err = dom.IsActive(); isCode(err, libvirt.ERR_NO_DOMAIN) || (err == nil && !on) {
		return nil
	}

	return failure
}

// ForceOff implements hypervisor.Driver.
func (d *driver) ForceOff(ctx context.Context, uuid string) error {
	return d.onOurs(ctx, "forcing off domain", uuid, func(_ *libvirt.Connect, dom *libvirt.Domain) error {
		return unlessOff(dom, dom.Destroy)
	})
}

// Pause implements hypervisor.Driver.
func (d *driver) Pause(ctx context.Context, uuid string) error {
	return d.onOurs(ctx, "pausing domain", uuid, func(_ *libvirt.Connect, dom *libvirt.Domain) error {
		if err := mustBeOn(dom); err != nil {
			return err
		}

		return unlessIn(dom, func(s libvirt.DomainState) bool { return s == libvirt.DOMAIN_PAUSED }, dom.Suspend)
	})
}

// Resume implements hypervisor.Driver.
func (d *driver) Resume(ctx context.Context, uuid string) error {
	return d.onOurs(ctx, "resuming domain", uuid, func(_ *libvirt.Connect, dom *libvirt.Domain) error {
		if err := mustBeOn(dom); err != nil {
			return err
		}

		return unlessIn(dom, func(s libvirt.DomainState) bool { return s == libvirt.DOMAIN_RUNNING || s == libvirt.DOMAIN_BLOCKED }, func() error {
			state, _, err := dom.GetState()
			if err == nil && state == libvirt.DOMAIN_PMSUSPENDED {
				return dom.PMWakeup(0)
			}

			return dom.Resume()
		})
	})
}

func mustBeOn(dom *libvirt.Domain) error {
	state, _, err := dom.GetState()
	if err == nil && isOff(state) {
		return fmt.Errorf("%w: the domain is off", hypervisor.ErrBusy)
	}

	return err
}
