package sim

import (
	"fmt"
	"maps"
	"slices"

	"gateway/hypervisor"
	"gateway/resources"
)

// Domain returns a domain by UUID, whoever it belongs to, without counting as a call.
func (h *Host) Domain(uuid string) (hypervisor.Domain, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	d, ok := h.domains[uuid]
	if !ok {
		return hypervisor.Domain{}, false
	}

	return d.observe(), true
}

// AddDomain defines a domain as somebody else: with the mark of d.Gateway, or none, in d.State, with d.Spec. Name and
// UUID are taken from d.
func (h *Host) AddDomain(d hypervisor.Domain) error {
	return h.change(func() error {
		if h.domains[d.UUID] != nil || h.names[d.Name] != nil {
			return fmt.Errorf("error adding domain %q (%s) to %s: %w: name or UUID is taken", d.Name, d.UUID, h.name, hypervisor.ErrInvalid)
		}

		spec := d.Spec.Normalised()
		spec.Name, spec.UUID, spec.VM, spec.Revision = d.Name, d.UUID, d.VM, d.Revision

		added := &domain{gateway: d.Gateway, spec: &spec, state: resources.StateStopped, reason: "unknown", autostart: d.Autostart}
		h.insert(added)
		h.record(record{Domain: domainRecordOf(added)})
		h.emit(hypervisor.EventDefined, added, "added")

		if d.State == resources.StateRunning || d.State == resources.StatePaused {
			h.powerOn(added, d.State == resources.StatePaused)
		}

		return nil
	})
}

// keepChange is change for what has no caller to report an error to.
func (h *Host) keepChange(effect func()) {
	if err := h.change(func() error { effect(); return nil }); err != nil {
		h.mu.Lock()
		h.violate("error keeping the state: %s", err)
		h.mu.Unlock()
	}
}

// with runs do on a domain, and reports whether it exists.
func (h *Host) with(uuid string, do func(*domain)) bool {
	found := false

	h.keepChange(func() {
		if d := h.domains[uuid]; d != nil {
			found = true
			do(d)
		}
	})

	return found
}

// Destroy forces a domain off behind the gateway's back. Like all that follows it reports whether there is such a domain.
func (h *Host) Destroy(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live != nil {
			h.powerOff(d, resources.StateStopped, "destroyed")
		}
	})
}

// Start starts a domain behind the gateway's back.
func (h *Host) Start(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live == nil {
			h.powerOn(d, false)
		}
	})
}

// Crash makes the guest of a domain crash.
func (h *Host) Crash(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live != nil {
			h.powerOff(d, resources.StateCrashed, "crashed")
		}
	})
}

// GuestShutdown is a poweroff typed inside the guest.
func (h *Host) GuestShutdown(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live != nil {
			h.guestOff(d)
		}
	})
}

// Pause and Resume change a running domain behind the gateway's back.
func (h *Host) Pause(uuid string) bool { return h.pause(uuid, true) }

// Resume is the opposite of Pause.
func (h *Host) Resume(uuid string) bool { return h.pause(uuid, false) }

func (h *Host) pause(uuid string, paused bool) bool {
	return h.with(uuid, func(d *domain) {
		if d.live != nil && (d.state == resources.StatePaused) != paused {
			h.setPaused(d, paused)
		}
	})
}

// IOError pauses a running domain as its hypervisor does when a disk can't be written.
func (h *Host) IOError(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.state == resources.StateRunning {
			h.suspend(d, hypervisor.ReasonIOError)
		}
	})
}

// Break pauses a running domain as its hypervisor does when it fails under the guest: only a fresh start helps.
func (h *Host) Break(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.state == resources.StateRunning {
			h.suspend(d, reasonBroken)
		}
	})
}

// SetFull takes the room for what guests write, or gives it back.
func (h *Host) SetFull(full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.full = full
}

// Unplug takes a disk out of a running domain, not out of its definition, behind the gateway's back.
func (h *Host) Unplug(uuid, disk string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live == nil {
			return
		}

		live := d.live.Normalised()
		live.Disks = slices.DeleteFunc(live.Disks, func(d hypervisor.DomainDisk) bool { return d.Name == disk })
		d.live = &live
		h.record(record{Domain: domainRecordOf(d)})
		h.emit(hypervisor.EventOther, d, "device removed: "+disk)
	})
}

// AddDisk gives the definition of a domain a disk that no document names, behind the gateway's back.
func (h *Host) AddDisk(uuid, path string) bool {
	return h.with(uuid, func(d *domain) {
		spec := d.spec.Normalised()
		spec.Disks = append(spec.Disks, hypervisor.DomainDisk{Path: path, Format: "raw", Foreign: true})
		d.spec = &spec
		h.record(record{Domain: domainRecordOf(d)})
		h.emit(hypervisor.EventDefined, d, "updated")
	})
}

// Inflate gives a running domain memory, not its definition, behind the gateway's back.
func (h *Host) Inflate(uuid string, memory resources.Size) bool {
	return h.with(uuid, func(d *domain) {
		if d.live == nil {
			return
		}

		live := d.live.Normalised()
		live.Memory = memory
		d.live = &live
		h.record(record{Domain: domainRecordOf(d)})
		h.emit(hypervisor.EventOther, d, "memory: "+memory.String())
	})
}

// Undefine removes a definition behind the gateway's back. A domain that is on becomes transient: it goes on, and
// vanishes when it goes off.
func (h *Host) Undefine(uuid string) bool {
	return h.with(uuid, func(d *domain) {
		if d.live == nil {
			h.remove(d)

			return
		}

		d.transient = true
		h.record(record{Domain: domainRecordOf(d)})
		h.emit(hypervisor.EventUndefined, d, "removed")
	})
}

// SetMemory changes the memory in the definition of a domain behind the gateway's back.
func (h *Host) SetMemory(uuid string, memory resources.Size) bool {
	return h.with(uuid, func(d *domain) {
		spec := *d.spec
		spec.Memory, spec.MaxMemory = memory, memory
		spec = spec.Normalised()
		d.spec = &spec
		h.record(record{Domain: domainRecordOf(d)})
		h.emit(hypervisor.EventDefined, d, "updated")
	})
}

// SetLease lets the guest of a domain go on with an old lease for a MAC, until it renews it: with an empty address.
func (h *Host) SetLease(uuid, mac, address string) bool {
	return h.with(uuid, func(d *domain) {
		d.stale = maps.Clone(d.stale)
		if d.stale == nil {
			d.stale = map[string]string{}
		}

		d.stale[mac] = address
	})
}

// SetStubborn makes the guest of a domain ignore the power button, or heed it again.
func (h *Host) SetStubborn(uuid string, stubborn bool) bool {
	return h.with(uuid, func(d *domain) { d.stubborn = stubborn })
}

// AddNetwork defines a network as somebody else, active as n says, with a DHCP entry for each host.
func (h *Host) AddNetwork(n hypervisor.Network) error {
	return h.change(func() error {
		if h.networks[n.Name] != nil {
			return fmt.Errorf("error adding network %q to %s: %w: the name is taken", n.Name, h.name, hypervisor.ErrInvalid)
		}

		spec := hypervisor.NetworkSpec{Name: n.Name, UUID: n.UUID, Bridge: n.Bridge, Hosts: sortedHosts(n.Hosts)}
		h.setNetwork(&network{spec: spec, active: n.Active})

		return nil
	})
}

// DropNetwork removes a network behind the gateway's back, and reports whether there was one.
func (h *Host) DropNetwork(name string) bool {
	found := false

	h.keepChange(func() {
		if found = h.networks[name] != nil; found {
			h.removeNetwork(name)
		}
	})

	return found
}

// NetworkStarts returns how often a network was started since the host came up: a restart cuts the guests off.
func (h *Host) NetworkStarts(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()

	if n := h.networks[name]; n != nil {
		return n.starts
	}

	return 0
}

// DropVolume removes a volume behind the gateway's back, and reports whether there was one.
func (h *Host) DropVolume(name string) bool {
	found := false

	h.keepChange(func() {
		if found = h.volumes[name] != nil; found {
			h.removeVolume(name)
		}
	})

	return found
}

// Volumes returns the sizes of all volumes by name.
func (h *Host) Volumes() map[string]resources.Size {
	h.mu.Lock()
	defer h.mu.Unlock()

	sizes := make(map[string]resources.Size, len(h.volumes))
	for name, v := range h.volumes {
		sizes[name] = v.size
	}

	return sizes
}

// Backings returns the paths that volumes start from, by the name of the volume.
func (h *Host) Backings() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()

	paths := map[string]string{}

	for name, v := range h.volumes {
		if v.backing != "" {
			paths[name] = v.backing
		}
	}

	return paths
}

// VolumeContent returns what a raw file of the gateway's has in it; nil where there is none.
func (h *Host) VolumeContent(name string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()

	if v := h.volumes[name]; v != nil {
		return v.content
	}

	return nil
}
