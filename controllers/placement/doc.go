// Package placement decides on which host each VM lives and writes the decision as a VMPlacement, the first link of the
// chain that leads to a domain and the last to let go of it. It imports resources, the hypervisor port and chain; the
// composition root builds it.
//
// # Capacity
//
// A host offers its capacity times its overcommit. A VM takes its CPUs, its memory and the sizes of its disks; one without a
// size is as large as its image, from when that is known: a VM does not wait for its image to be placed. What it
// takes is reserved from the decision until its placement is gone, so also while it is being moved away. A capacity that
// nobody reported does not limit. All decisions are made under one lock, over an index that is rebuilt from VMPlacements
// whenever the controller starts and kept in step with what this controller, their only writer, writes.
//
// # Choice
//
// Of the hosts that fit, the one where the largest share of memory stays free is taken, and of equal ones the first by
// name, so that the same state leads to the same choice. `spread` comes before that: hosts whose value of the label has
// the fewest VMs with the same labels and the same `spread`, then the fewest with the same `spread`; hosts without the
// label come last. `apart` holds both ways: no VM is placed beside one that it must be apart from, nor beside one that must
// be apart from it. The first VM of a group may be anywhere when its `together` names its own labels.
//
// # Staying and moving
//
// A placed VM stays while pin and selector allow its host, whatever else changes. A VM that has to leave (pin, selector,
// drain) leaves only when there is a host that takes it, and only when it has no disks there, or they are files in a
// directory that both hosts share: it is claimed on the new host, torn down on the old one, and placed anew when network
// and vm have let go. A drain that is called off leaves where they are those that have not begun to move. Nothing leaves a
// host that is not connected, but for one that a person gave up by force: its VMs are placed anew as if they had never been
// there, and those whose volumes were there are not given empty ones. A resize that does not fit keeps the placement and
// its old reservation, with the reason NotEnoughCapacity.
//
// # Never two
//
// Before a VM's first placement every host is asked, with one call per host and connection, which of our domains it has.
// A VM whose domain is found somewhere is placed there. A host that has answered since this process started needs no
// second question while it is away: since then only this gateway can have made the domain, and its placements are known.
// A host that has not answered blocks the first placement of every VM when it was connected at any time before (its
// HostStatus has a generation), with the reason HostUnreachable: bring it back, or take its document away. One that was
// never connected blocks only while the first attempt is under way: nothing that this store ever placed can be there, and
// a mistyped URI must not stop everything else. A host that was given up is not asked; should it come back, the domains on
// it of VMs that are elsewhere by now are left as they are, and a VM that leaves its place is found there. What remains is a
// lost data directory together with a dead host.
package placement
