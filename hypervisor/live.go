package hypervisor

import (
	"fmt"
	"slices"
	"strings"
)

// Effect is when a change of a domain takes effect.
type Effect string

// Effects of changes. A domain that is off has neither: what is defined is what it starts with.
const (
	// EffectLive takes effect while the domain runs, as far as the guest goes along.
	EffectLive Effect = "live"
	// EffectRestart takes effect when the domain is started again.
	EffectRestart Effect = "restart"
)

// Action is what is done for a change.
type Action string

// Actions of changes.
const (
	ActionSet    Action = "set"
	ActionAttach Action = "attach"
	ActionDetach Action = "detach"
)

// LiveChange is one difference between a domain that is on and what it is to be.
type LiveChange struct {
	// Field is one of the Field constants.
	Field string
	// Item is the name of the disk, or the MAC of the interface; empty for other fields.
	Item   string
	Action Action
	Effect Effect
	// Reason says why it needs a restart, or what it depends on.
	Reason string
}

// String is the change in a few words, as the journal has it: "attach disk data", "set memory".
func (c LiveChange) String() string {
	switch c.Field {
	case FieldDisks:
		return fmt.Sprintf("%s disk %s", c.Action, c.Item)
	case FieldInterfaces:
		return fmt.Sprintf("%s interface %s", c.Action, c.Item)
	default:
		return fmt.Sprintf("%s %s", c.Action, c.Field)
	}
}

// HotPlug is what a hypervisor can change of a domain that is on.
type HotPlug struct {
	// CPUs can be added, up to the maximum that the domain was started with. They are never taken away: that waits for the
	// guest, and has crashed QEMU 7.2.
	CPUs bool
	// Memory can be given, up to the maximum that the domain was started with.
	Memory bool
	// Balloon reports whether memory can be taken back too, as far as the guest goes along.
	Balloon bool
	// Devices reports whether disks and interfaces come and go, and interfaces change their network.
	Devices bool
}

// LiveChanges returns what has to be done so that a running domain becomes what it is defined as, and when each takes
// effect. Both are normalised, and have the same devices in question. What goes comes before what comes, so that names and
// slots are free.
func LiveChanges(running, defined *DomainSpec, can HotPlug) []LiveChange {
	var changes []LiveChange

	for _, field := range RestartRequired(running, defined, can) {
		switch field {
		case FieldCPUs:
			changes = append(changes, cpusChange(running, defined, can))
		case FieldMemory:
			changes = append(changes, memoryChange(running, defined, can))
		case FieldDisks:
			changes = append(changes, diskChanges(withoutSeed(running.Disks), withoutSeed(defined.Disks), can)...)
		case FieldInterfaces:
			changes = append(changes, interfaceChanges(running.Interfaces, defined.Interfaces, can)...)
		default:
			changes = append(changes, LiveChange{Field: field, Action: ActionSet, Effect: EffectRestart, Reason: "is fixed while the guest runs"})
		}
	}

	if slices.Contains(WaitsForGuest(running, defined, can), FieldMemory) {
		changes = append(changes, memoryChange(running, defined, can))
	}

	return changes
}

// RestartRequired returns the owned fields in which a running domain differs from its definition. Texts never need a
// restart; the order of devices is no difference, since each keeps its place; and memory that only the guest can give back
// is not among it: it starts with all of it again.
func RestartRequired(running, defined *DomainSpec, can HotPlug) []string {
	a, b := withoutTexts(running), withoutTexts(defined)
	if len(WaitsForGuest(running, defined, can)) > 0 {
		a.Memory = b.Memory
	}

	return a.Differences(&b)
}

// WaitsForGuest returns the owned fields that are defined, and that a running guest has to go along with: memory that it
// holds above what is defined. Without a balloon driver it never does.
func WaitsForGuest(running, defined *DomainSpec, can HotPlug) []string {
	if can.Balloon && running.MaxMemory == defined.MaxMemory && running.Memory > defined.Memory {
		return []string{FieldMemory}
	}

	return nil
}

// withoutTexts returns a copy without what never needs a restart, its devices sorted.
func withoutTexts(s *DomainSpec) DomainSpec {
	c := *s
	c.Name, c.VM, c.Revision, c.Description = "", "", 0, ""
	c.Disks = slices.SortedFunc(slices.Values(s.Disks), func(a, b DomainDisk) int { return strings.Compare(a.Name, b.Name) })
	c.Interfaces = slices.SortedFunc(slices.Values(s.Interfaces), func(a, b DomainInterface) int { return strings.Compare(a.MAC, b.MAC) })

	return c
}

func cpusChange(running, defined *DomainSpec, can HotPlug) LiveChange {
	c := LiveChange{Field: FieldCPUs, Action: ActionSet, Effect: EffectRestart}

	switch {
	case defined.CPUs < running.CPUs:
		c.Reason = "CPUs are not taken away from a guest that runs"
	case defined.CPUs > running.MaxCPUs:
		c.Reason = fmt.Sprintf("the guest was started with at most %d: maxCpus says how many can be reached", running.MaxCPUs)
	case !can.CPUs:
		c.Reason = "this hypervisor can't add CPUs to a guest that runs"
	default:
		c.Effect = EffectLive
	}

	return c
}

func memoryChange(running, defined *DomainSpec, can HotPlug) LiveChange {
	c := LiveChange{Field: FieldMemory, Action: ActionSet, Effect: EffectRestart}
	less := defined.Memory < running.Memory

	switch {
	case defined.Memory > running.MaxMemory:
		c.Reason = fmt.Sprintf("the guest was started with at most %s: maxMemory says how much can be reached", running.MaxMemory)
	case less && running.MaxMemory != defined.MaxMemory:
		c.Reason = "the maximum that the guest was started with goes down too"
	case less && !can.Balloon, !can.Memory:
		c.Reason = "this hypervisor can't change the memory of a guest that runs"
	case less:
		c.Effect, c.Reason = EffectLive, "the guest has to give it back, which takes a balloon driver"
	default:
		c.Effect = EffectLive
	}

	return c
}

func diskChanges(running, defined []DomainDisk, can HotPlug) (changes []LiveChange) {
	for _, d := range running {
		if indexDisk(defined, d.Name) < 0 {
			changes = append(changes, plug(FieldDisks, d.Name, ActionDetach, d.CDROM, can))
		}
	}

	for _, d := range defined {
		switch i := indexDisk(running, d.Name); {
		case i < 0:
			changes = append(changes, plug(FieldDisks, d.Name, ActionAttach, d.CDROM, can))
		case running[i] != d:
			changes = append(changes, LiveChange{
				Field: FieldDisks, Item: d.Name, Action: ActionSet, Effect: EffectRestart, Reason: "another file is never put under a guest that runs",
			})
		}
	}

	return changes
}

func interfaceChanges(running, defined []DomainInterface, can HotPlug) (changes []LiveChange) {
	for _, n := range running {
		if indexInterface(defined, n.MAC) < 0 {
			changes = append(changes, plug(FieldInterfaces, n.MAC, ActionDetach, false, can))
		}
	}

	for _, n := range defined {
		switch i := indexInterface(running, n.MAC); {
		case i < 0:
			changes = append(changes, plug(FieldInterfaces, n.MAC, ActionAttach, false, can))
		case running[i] != n:
			changes = append(changes, plug(FieldInterfaces, n.MAC, ActionSet, false, can))
		}
	}

	return changes
}

// plug is the change of a device that comes, goes, or changes where it is plugged in.
func plug(field, item string, action Action, cdrom bool, can HotPlug) LiveChange {
	c := LiveChange{Field: field, Item: item, Action: action, Effect: EffectRestart}

	switch {
	case cdrom:
		c.Reason = "CD-ROMs don't come and go while the guest runs"
	case !can.Devices:
		c.Reason = "this hypervisor can't change the devices of a guest that runs"
	case action == ActionDetach:
		c.Effect, c.Reason = EffectLive, "the guest has to let go of it"
	default:
		c.Effect = EffectLive
	}

	return c
}

func indexDisk(disks []DomainDisk, name string) int {
	return slices.IndexFunc(disks, func(d DomainDisk) bool { return d.Name == name })
}

func indexInterface(interfaces []DomainInterface, mac string) int {
	return slices.IndexFunc(interfaces, func(n DomainInterface) bool { return n.MAC == mac })
}
