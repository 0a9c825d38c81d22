package sim

import (
	"encoding/json"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// domain is one domain of a host, which guards it with its lock.
type domain struct {
	// gateway is the id of the gateway whose mark it carries.
	gateway string
	// spec is the definition, live what the running domain has of it; nil while it is off. Both are normalised and never
	// changed in place, so that they may be shared, with each other and with a snapshot.
	spec, live *hypervisor.DomainSpec
	state      hypervisor.State
	reason     string
	// lease is when the guest has its addresses, and hears the power button.
	lease time.Time
	// boots counts starts, so that an answer to the power button never ends a later run.
	boots uint64
	// pressed reports whether the guest is about to power off.
	pressed bool
	// stubborn guests don't care for the power button.
	stubborn bool
	// transient domains were undefined while they were on, and vanish when they go off.
	transient bool
	autostart bool
	// stale has the leases that are not those of their MAC's entry any more, by MAC, until the guest renews them.
	stale map[string]string
	// console is what is attached to it; nil: nothing.
	console *console
}

// observe returns the domain as the port describes it. It shares nothing.
func (d *domain) observe() hypervisor.Domain {
	seen := hypervisor.Domain{
		Name:      d.spec.Name,
		UUID:      d.spec.UUID,
		State:     d.state,
		Reason:    d.reason,
		Gateway:   d.gateway,
		VM:        d.spec.VM,
		Revision:  d.spec.Revision,
		Spec:      d.spec.Normalised(),
		Autostart: d.autostart,
		Transient: d.transient,
	}
	seen.RestartRequired, seen.WaitsForGuest = d.restartRequired(), d.waitsForGuest()
	seen.Definition = definitionOf(&seen.Spec)

	return seen
}

// definitionOf keeps the devices that others gave a domain: all there is in it that nobody declared.
func definitionOf(spec *hypervisor.DomainSpec) []byte {
	var theirs hypervisor.DomainSpec

	theirs.KeepForeign(spec)

	if len(theirs.Disks)+len(theirs.Interfaces) == 0 {
		return nil
	}

	text, err := json.Marshal(theirs)
	if err != nil {
		return nil // a struct of texts and numbers can always be written
	}

	return text
}

// insert puts a domain into the host.
func (h *Host) insert(d *domain) {
	h.domains[d.spec.UUID] = d
	h.names[d.spec.Name] = d
}

// powerOn starts a domain that is off.
func (h *Host) powerOn(d *domain, paused bool) {
	d.live = d.spec
	d.state, d.reason = resources.StateRunning, "booted"
	d.lease = h.leaseTime()
	d.boots++
	d.pressed = false

	h.emit(hypervisor.EventStarted, d, "booted")

	if paused {
		d.state, d.reason = resources.StatePaused, "user"
		h.emit(hypervisor.EventSuspended, d, "paused")
	}

	h.record(record{Power: powerRecordOf(d)})
}

// powerOff ends a domain that is on. A transient one vanishes.
func (h *Host) powerOff(d *domain, state hypervisor.State, reason string) {
	d.live = nil
	d.state, d.reason = state, reason
	d.pressed = false
	d.detach()

	kind := hypervisor.EventStopped
	if state == resources.StateCrashed {
		kind = hypervisor.EventCrashed
	}

	h.emit(kind, d, reason)

	if d.transient {
		h.remove(d)

		return
	}

	h.record(record{Power: powerRecordOf(d)})
}

// remove takes the definition of a domain that is off away.
func (h *Host) remove(d *domain) {
	delete(h.domains, d.spec.UUID)
	delete(h.names, d.spec.Name)
	h.record(record{Gone: d.spec.UUID})
	h.emit(hypervisor.EventUndefined, d, "removed")
}

// setPaused pauses or resumes a domain that is on.
func (h *Host) setPaused(d *domain, paused bool) {
	kind, detail := hypervisor.EventResumed, "unpaused"
	d.state, d.reason = resources.StateRunning, "unpaused"

	if paused {
		kind, detail = hypervisor.EventSuspended, "paused"
		d.state, d.reason = resources.StatePaused, "user"
	}

	h.emit(kind, d, detail)
	h.record(record{Power: powerRecordOf(d)})
}

// suspend pauses a domain that runs, as its hypervisor does by itself.
func (h *Host) suspend(d *domain, reason string) {
	d.state, d.reason = resources.StatePaused, reason
	h.emit(hypervisor.EventSuspended, d, reason)
	h.record(record{Power: powerRecordOf(d)})
}

// reasonBroken is why a domain is paused whose hypervisor failed under it: libvirt has no word for it.
const reasonBroken = "unknown"

// pressButton asks the guest to power off. As in life, a guest that still boots, or is paused, does not hear it.
func (h *Host) pressButton(d *domain) {
	if h.deaf(d) || d.pressed {
		return
	}

	d.pressed = true
	boots := d.boots

	time.AfterFunc(h.options.shutdown, func() {
		h.keepChange(func() {
			if d.live != nil && d.boots == boots && d.pressed {
				h.guestOff(d)
			}
		})
	})
}

// guestOff is what happens when the guest powers itself off.
func (h *Host) guestOff(d *domain) {
	h.emit(hypervisor.EventShutdown, d, "guest")
	h.powerOff(d, resources.StateStopped, "shutdown")
}
