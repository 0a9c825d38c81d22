package sim

import (
	"fmt"

	"gateway/hypervisor"
	"gateway/resources"
)

// unplaced checks that there is a reason for a VM to be nowhere.
func (c *check) unplaced(name string, spec *resources.VMConfigSpec) {
	for i := range hostCount {
		if why := c.obstacle(name, spec, i); why == "" {
			c.wrong("VM %s is nowhere, and %s would take it: %s %s", name, hostName(i),
				c.placements[name].TypedSpec().Reason, c.placements[name].TypedSpec().Message)
		}
	}

	if located := c.sim.Domains(hypervisor.DomainUUID(gatewayID, name)); len(located) > 0 {
		c.wrong("VM %s is placed nowhere, and its domains are %v", name, places(located))
	}
}

// hostIndex is the number of a host; -1: it is none that takes VMs.
func hostIndex(name string) int {
	for i := range hostCount {
		if hostName(i) == name {
			return i
		}
	}

	return -1
}

// mayStay checks that a VM without disks is not where it should have left.
func (c *check) mayStay(name string, spec *resources.VMConfigSpec, host string) {
	if len(spec.Disks) > 0 {
		return
	}

	p, at := spec.Placement, hostIndex(host)
	if at < 0 {
		c.wrong("VM %s is on %s", name, host)

		return
	}

	must := p.Host != "" && p.Host != host || p.Selector["rack"] != "" && p.Selector["rack"] != fmt.Sprintf("r%d", at%2) ||
		at == c.model.drained && p.Host != host
	if !must {
		return
	}

	for i := range hostCount {
		if i != at && c.obstacle(name, spec, i) == "" {
			c.wrong("VM %s should have left %s for %s: %s", name, host, hostName(i), c.placements[name].TypedSpec().Message)
		}
	}
}

// obstacle is what keeps a VM from a host, as the documents have it.
func (c *check) obstacle(name string, spec *resources.VMConfigSpec, i int) string {
	h, p := hostName(i), spec.Placement

	if p.Host != "" && p.Host != h {
		return "pinned elsewhere"
	}

	if rack := p.Selector["rack"]; rack != "" && rack != fmt.Sprintf("r%d", i%2) {
		return "rack"
	}

	if i == c.model.drained {
		return "drained"
	}

	labels := c.configs[name].Metadata().Labels().Raw()

	for other, placement := range c.placements {
		if other == name || placement.TypedSpec().Host != h || c.configs[other] == nil {
			continue
		}

		theirs := c.configs[other]

		if apart := p.Apart["tier"]; apart != "" && theirs.Metadata().Labels().Raw()["tier"] == apart {
			return "apart from " + other
		}

		if apart := theirs.TypedSpec().Placement.Apart["tier"]; apart != "" && labels["tier"] == apart {
			return other + " is apart"
		}
	}

	if c.full(name, spec, i) {
		return "full"
	}

	return ""
}

// full reports whether a host has no CPUs left for a VM; the last host is small.
func (c *check) full(name string, spec *resources.VMConfigSpec, i int) bool {
	used := 0

	for other, placement := range c.placements {
		if other != name && placement.TypedSpec().Host == hostName(i) {
			used += placement.TypedSpec().Reserved.CPUs
		}
	}

	return i == hostCount-1 && used+spec.CPUs > smallHost
}
