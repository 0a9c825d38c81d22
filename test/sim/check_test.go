package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	c.published()
	c.acknowledged()

	return c.problems
}

// declared compares the documents with the state.
func (c *check) declared() {
	wanted := c.model.wanted()

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

	if d.State != c.statuses[name].TypedSpec().State {
		c.wrong("VM %s is %s, and its status says %s", name, d.State, c.statuses[name].TypedSpec().State)
	}

	if d.Spec.CPUs != spec.CPUs || d.Spec.Memory != spec.Memory || d.Spec.Description != spec.Description {
		c.wrong("VM %s is defined as %+v", name, d.Spec)
	}

	if len(d.Spec.Interfaces) != len(spec.Interfaces) || len(d.Spec.Disks) != len(spec.Disks) {
		c.wrong("VM %s has interfaces %v and disks %v", name, d.Spec.Interfaces, d.Spec.Disks)
	}
}

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
		}
	}

	for uuid, before := range c.model.foreign[host] {
		if now, ok := c.sim.Host(host).Domain(uuid); !ok || !untouched(&now, &before) {
			c.wrong("the foreign domain %s on %s was touched: %+v", before.Name, host, now)
		}
	}
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

// leftovers checks that everything that was to be handled is, and that nothing is left of what is gone.
func (c *check) leftovers() {
	for name := range c.placements {
		if c.configs[name] == nil {
			c.wrong("the placement of %s is left", name)
		}
	}

	for name := range c.networks {
		if c.configs[name] == nil {
			c.wrong("the network configuration of %s is left", name)
		}
	}

	for name := range c.statuses {
		if c.configs[name] == nil {
			c.wrong("the status of %s is left", name)
		}
	}

	for _, kind := range []string{"WebhookEvent", "Action", "Tombstone", "DeletionGuard", "Hold"} {
		for id, r := range list[resource.Resource](c.world, kind) {
			c.wrong("%s %s is left: %v %+v", kind, id, r.Metadata().Finalizers(), r.Spec())
		}
	}

	results := list[*resources.ApplyResult](c.world, "ApplyResult")

	for id, e := range list[*resources.FileEvent](c.world, "FileEvent") {
		result := results[id]

		if e.Metadata().Phase() != resource.PhaseRunning || result == nil || result.TypedSpec().Sequence != e.TypedSpec().Event.Sequence || result.TypedSpec().Error != "" {
			c.wrong("file %s: phase %s, result %+v", e.TypedSpec().Path, e.Metadata().Phase(), result)

			continue
		}

		for _, o := range result.TypedSpec().Objects {
			if o.Outcome == resources.OutcomeConflict || o.Outcome == resources.OutcomeRefused {
				c.wrong("file %s: %+v", e.TypedSpec().Path, o)
			}
		}
	}
}

// message is what is read of a published one.
type message struct {
	uid    string
	number uint64
	typ    string
}

// published checks the stream of every VM: rising numbers, the newest status last, nothing after the deletion.
func (c *check) published() {
	for _, wrong := range c.edge.wrong {
		c.wrong("%s", wrong)
	}

	newest := map[string]message{}

	for _, subject := range c.edge.subjects() {
		name, ok := strings.CutPrefix(subject, "gateway.vm.")
		if !ok {
			continue
		}

		name = strings.TrimSuffix(name, ".status")
		last, gone := map[string]uint64{}, map[string]bool{}

		for _, msg := range c.edge.messages(subject) {
			uid, text, _ := strings.Cut(msg.Header["Nats-Msg-Id"][0], "/")
			number, err := strconv.ParseUint(text, 10, 64)

			var event struct{ Type string }
			if err := json.Unmarshal(msg.Data, &event); err != nil {
				c.wrong("%s: %v", subject, err)
			}

			m := message{uid, number, event.Type}

			if err != nil || number < last[uid] || gone[uid] && m.typ != "gateway.vm.deleted.v1" {
				c.wrong("%s: %v came after %d of the same (deleted %v)", subject, m, last[uid], gone[uid])
			}

			last[uid], gone[uid] = number, m.typ == "gateway.vm.deleted.v1"
			newest[name] = m
		}
	}

	for name, s := range c.statuses {
		want := message{s.TypedSpec().UID, s.Metadata().Version().Value(), "gateway.vm.status.v1"}
		if newest[name] != want {
			c.wrong("the newest message about %s is %v, not %v", name, newest[name], want)
		}
	}

	for name, m := range newest {
		if c.statuses[name] == nil && m.typ != "gateway.vm.deleted.v1" {
			c.wrong("the last message about %s is %v", name, m)
		}
	}
}

// acknowledged checks that the journal has every event whose sender was told that it is kept.
func (c *check) acknowledged() {
	known, dead := map[string]bool{}, map[string]bool{}
	journal := c.process.store.Journal()

	entries, err := journal.Query(ctx(), store.Query{
		Classes: []store.Class{store.ClassEvent, store.ClassDead}, Source: resources.SourceWebhook, Limit: 100_000,
	})
	if err != nil {
		c.wrong("journal: %v", err)
	}

	for _, e := range entries {
		known[e.EventID] = known[e.EventID] || e.Class == store.ClassEvent
		dead[e.EventID] = dead[e.EventID] || e.Class == store.ClassDead
	}

	for _, a := range c.model.acked {
		if !known[a.id] {
			c.wrong("event %s of %s was acknowledged, and the journal does not have it", a.id, a.route)
		}

		// What is dead may be sent again, and is processed again then.
		if id, seen := journal.Seen(resources.SourceWebhook, a.route, a.key); !dead[a.id] && (!seen || id != a.id) {
			c.wrong("delivery %s of %s was acknowledged, and would be processed again (seen as %q)", a.key, a.route, id)
		}
	}
}
