package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// list returns the resources of a kind by id.
func list[R resource.Resource](w *world, kind string) map[string]R {
	k, ok := resources.KindByName(kind)
	if !ok {
		panic(kind)
	}

	items, err := w.st().List(ctx(), k.List())
	if err != nil {
		panic(err)
	}

	all := map[string]R{}
	for _, r := range items.Items {
		all[r.Metadata().ID()] = r.(R)
	}

	return all
}

// check collects what is not as it should be.
type check struct {
	*world

	configs    map[string]*resources.VMConfig
	placements map[string]*resources.VMPlacement
	networks   map[string]*resources.NetworkConfig
	statuses   map[string]*resources.VMStatus
	overrides  map[string]*resources.Override
	problems   []string
	journal    []store.Entry // once it was read
}

func (c *check) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// problems returns everything that is not converged to what was last asked for.
func (w *world) problems() []string {
	if w.process.gate.closed {
		return []string{"the process is dead"}
	}

	c := &check{
		world: w, configs: list[*resources.VMConfig](w, "VM"), placements: list[*resources.VMPlacement](w, "VMPlacement"),
		networks: list[*resources.NetworkConfig](w, "NetworkConfig"), statuses: list[*resources.VMStatus](w, "VMStatus"),
		overrides: list[*resources.Override](w, "Override"),
	}

	c.declared()

	for _, name := range slices.Sorted(maps.Keys(c.configs)) {
		c.vm(name)
	}

	c.hosts()
	c.leftovers()

	// What was told outside is much to read, and is seldom as it should be before the rest is.
	if len(c.problems) == 0 || w.thorough {
		c.published()
		c.acknowledged()
		c.takenIn()
		c.told()
	}

	return c.problems
}

// declared compares the documents with the state.
func (c *check) declared() {
	wanted := c.model.wanted()
	maps.Copy(wanted, c.byMessages())

	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		got := c.configs[name]

		switch {
		case c.model.unsure[name]:
		case got == nil:
			c.wrong("VM %s is not there%s", name, c.dead(name))
		case got.Metadata().Phase() != resource.PhaseRunning:
			c.wrong("VM %s is being torn down, finalizers %v", name, got.Metadata().Finalizers())
		case got.TypedSpec().Description != descriptionOf(wanted[name]):
			c.wrong("VM %s is %s, not %s%s", name, got.TypedSpec().Description, descriptionOf(wanted[name]), c.dead(name))
		}
	}

	for name, got := range c.configs {
		if wanted[name] == nil && !c.model.unsure[name] {
			c.wrong("VM %s should not be there: phase %s, finalizers %v%s", name, got.Metadata().Phase(), got.Metadata().Finalizers(), c.dead(name))
		}
	}
}

// dead tells that a delivery is dead, which is an answer too.
func (c *check) dead(name string) string {
	id := c.model.ciEvent[name]
	if id == "" {
		return ""
	}

	entries, err := c.process.store.Journal().Query(ctx(), store.Query{EventID: id})
	if err != nil {
		return fmt.Sprintf(" (journal: %v)", err)
	}

	text := " (event " + id + ":"
	for _, e := range entries {
		text += fmt.Sprintf(" %s %s %s;", e.Class, e.Reason, e.Message)
	}

	return text + ")"
}

// effective is the spec that is in force.
func (c *check) effective(name string) *resources.VMConfigSpec {
	spec := c.configs[name].TypedSpec().DeepCopy()

	o := c.overrides[name]
	if o != nil && len(o.TypedSpec().Patch) > 0 && (o.TypedSpec().Until.IsZero() || time.Now().Before(o.TypedSpec().Until)) {
		if err := config.MergeSpec(&spec, o.TypedSpec().Patch); err != nil {
			c.wrong("the override of %s: %v", name, err)
		}
	}

	return &spec
}

// vm checks one VM that is declared.
func (c *check) vm(name string) {
	status, placement := c.statuses[name], c.placements[name]
	if status == nil || placement == nil {
		c.wrong("VM %s: status %v, placement %v", name, status != nil, placement != nil)

		return
	}

	s := status.TypedSpec()
	converged := resources.FindCondition(s.Conditions, resources.ConditionConverged)

	if converged == nil || s.ObservedRevision != resources.RevisionOf(c.configs[name].Metadata()) || s.UID != resources.UIDOf(c.configs[name].Metadata()) {
		c.wrong("VM %s: the status is about uid %s revision %d", name, s.UID, s.ObservedRevision)

		return
	}

	spec := c.effective(name)
	host := placement.TypedSpec().Host

	if host == "" {
		c.unplaced(name, spec)

		return
	}

	c.mayStay(name, spec, host)

	located := c.sim.Domains(hypervisor.DomainUUID(gatewayID, name))

	// A VM that grew out of its host stays as it is, until there is room.
	if converged.Reason == resources.ReasonNotEnoughCapacity && len(located) == 1 && located[0].Host == host {
		if !c.full(name, spec, hostIndex(host)) {
			c.wrong("VM %s: %s, but there is room", name, converged.Message)
		}

		return
	}

	if c.hasTakenAddress(name, s) {
		return
	}

	if converged.Status != resources.ConditionTrue && converged.Reason != resources.ReasonRestartRequired {
		c.wrong("VM %s on %s is not converged: %s %s; %+v", name, host, converged.Reason, converged.Message, s.Conditions)
	}

	if len(located) != 1 || located[0].Host != host {
		c.wrong("VM %s is placed on %s, and its domains are %v", name, host, places(located))

		return
	}

	c.domain(name, spec, &located[0].Domain)
}

// hasTakenAddress reports whether a VM waits because another has the address that it declares.
func (c *check) hasTakenAddress(name string, s *resources.VMStatusSpec) bool {
	ready := resources.FindCondition(s.Conditions, resources.ConditionNetworkReady)
	if ready == nil || ready.Reason != resources.ReasonAddressInUse {
		return false
	}

	for _, nic := range c.configs[name].TypedSpec().Interfaces {
		for other, n := range c.networks {
			has := func(b resources.NetworkBinding) bool { return b.Address == nic.Address }
			if other != name && nic.Address != "" && slices.ContainsFunc(slices.Concat(n.TypedSpec().Interfaces, n.TypedSpec().Retiring), has) {
				return true
			}
		}
	}

	return false
}

func places(located []sim.Located) (all []string) {
	for _, l := range located {
		all = append(all, l.Host+" "+l.Domain.State)
	}

	return all
}

// domain compares a domain with the spec.
func (c *check) domain(name string, spec *resources.VMConfigSpec, d *hypervisor.Domain) {
	rests := d.State == resources.StateStopped && spec.OnGuestShutdown == resources.StayOff

	off := d.State == resources.StateCrashed && spec.Power == resources.PowerStopped

	if d.State != spec.Power && !rests && !off {
		c.wrong("VM %s is %s, not %s", name, d.State, spec.Power)
	}

	shown := d.State
	if off {
		shown = resources.StateStopped // how its last run ended is over
	}

	if shown != c.statuses[name].TypedSpec().State {
		c.wrong("VM %s is %s, and its status says %s", name, d.State, c.statuses[name].TypedSpec().State)
	}

	if d.Spec.CPUs != spec.CPUs || d.Spec.Memory != spec.Memory || d.Spec.Description != spec.Description {
		c.wrong("VM %s is defined as %+v", name, d.Spec)
	}

	if len(d.Spec.Interfaces) != len(spec.Interfaces) || len(d.Spec.Disks) != len(spec.Disks) {
		c.wrong("VM %s has interfaces %v and disks %v", name, d.Spec.Interfaces, d.Spec.Disks)
	}
}
