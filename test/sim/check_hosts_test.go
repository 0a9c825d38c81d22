package sim

import (
	"slices"
	"strings"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// hosts checks what is on the hosts against what should be.
func (c *check) hosts() {
	for i := range hostCount {
		name := hostName(i)

		connected, err := c.st().Get(ctx(), resources.NewHostStatus(name).Metadata())
		if err != nil || !connected.(*resources.HostStatus).TypedSpec().Connected {
			c.wrong("host %s is not connected: %v", name, err)

			continue
		}

		d, err := sim.NewOpener(c.sim)(ctx(), hostURI(i), gatewayID)
		if err != nil {
			c.wrong("host %s: %v", name, err)

			continue
		}

		c.domainsOn(name, d)
		c.networksOn(name, d)
		c.volumesOn(name)
		c.imagesOn(name)

		if err := d.Close(); err != nil {
			c.wrong("host %s: %v", name, err)
		}
	}
}

func (c *check) domainsOn(host string, d hypervisor.Driver) {
	domains, err := d.Domains(ctx())
	if err != nil {
		c.wrong("host %s: %v", host, err)
	}

	foreign := map[string]bool{}

	for _, domain := range domains {
		if domain.Gateway != gatewayID {
			foreign[domain.UUID] = true
		} else if p := c.placements[domain.VM]; p == nil || p.TypedSpec().Host != host {
			c.wrong("a domain of VM %s is left on %s", domain.VM, host)
		} else if s := c.statuses[domain.VM]; domain.Transient && s != nil && isConverged(s.TypedSpec()) {
			c.wrong("the domain of VM %s on %s has no definition", domain.VM, host)
		}
	}

	for uuid, before := range c.model.foreign[host] {
		if now, ok := c.sim.Host(host).Domain(uuid); !ok || !untouched(&now, &before) {
			c.wrong("the foreign domain %s on %s was touched: %+v", before.Name, host, now)
		}
	}
}

// isConverged reports whether a VM says that nothing is left to be done.
func isConverged(s *resources.VMStatusSpec) bool {
	c := resources.FindCondition(s.Conditions, resources.ConditionConverged)

	return c != nil && c.Status == resources.ConditionTrue
}

// networksOn checks that a host has the networks that its VMs use, with their entries, and no others of ours.
func (c *check) networksOn(host string, d hypervisor.Driver) {
	wanted, maybe := map[string][]string{}, map[string]bool{}

	for name, n := range c.networks {
		if n.TypedSpec().Host != host || c.configs[name] == nil {
			continue
		}

		for _, b := range n.TypedSpec().Retiring {
			if !b.Ours {
				continue
			}

			maybe[b.LibvirtNetwork+" "+b.MAC+" "+b.Address] = true

			if wanted[b.LibvirtNetwork] == nil {
				wanted[b.LibvirtNetwork] = []string{} // the network stays, whether with an entry or without
			}
		}

		for _, b := range n.TypedSpec().Interfaces {
			if b.Ours {
				wanted[b.LibvirtNetwork] = append(wanted[b.LibvirtNetwork], b.MAC+" "+b.Address)
			}
		}

		// What the running domain still has stays until it is restarted.
		// So does what a VM had that waits for an address.
		if s := c.statuses[name]; len(n.TypedSpec().Retiring) > 0 && (s == nil || len(s.TypedSpec().RestartRequired) == 0 && !c.hasTakenAddress(name, s.TypedSpec())) {
			c.wrong("VM %s has bindings that retire: %v", name, n.TypedSpec().Retiring)
		}
	}

	networks, err := d.Networks(ctx())
	if err != nil {
		c.wrong("host %s: %v", host, err)
	}

	for _, n := range networks {
		if !n.Ours {
			continue
		}

		if wanted[n.Name] == nil {
			c.wrong("network %s is left on %s", n.Name, host)

			continue
		}

		var entries []string
		for _, e := range n.Hosts {
			if entry := e.MAC + " " + e.Address; !maybe[n.Name+" "+entry] || slices.Contains(wanted[n.Name], entry) {
				entries = append(entries, entry)
			}
		}

		slices.Sort(entries)
		slices.Sort(wanted[n.Name])

		if !slices.Equal(entries, wanted[n.Name]) {
			c.wrong("network %s on %s has entries %v, not %v", n.Name, host, entries, wanted[n.Name])
		}

		delete(wanted, n.Name)
	}

	for name, entries := range wanted {
		if len(entries) == 0 { // a network that only retires may be gone already
			continue
		}

		c.wrong("network %s is missing on %s", name, host)
	}
}

// volumesOn checks that no volume stays that should have gone with its VM.
func (c *check) volumesOn(host string) {
	for volume := range c.sim.Host(host).Volumes() {
		name, _, _ := strings.Cut(volume, ".")
		p := c.placements[name]

		if removesDisks(name) && (p == nil || p.TypedSpec().Host != host) {
			c.wrong("volume %s is left on %s", volume, host)
		}
	}
}
