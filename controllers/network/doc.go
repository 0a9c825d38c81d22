// Package network gives each VM's interfaces their MAC and address, and makes the networks exist on the VM's host before
// its domain does: it writes NetworkConfig and NetworkStatus, the link between VMPlacement and VMStatus in the chain. It
// imports resources, the hypervisor port, the store's interfaces and chain; the composition root builds it.
//
// # Allocation
//
// MACs are unique over all VMs, addresses within their network. What a VM has it keeps while it is right, also over a
// move. All allocation happens under one lock, over an index that is rebuilt from NetworkConfigs whenever the controller
// starts. An address that another document declares is not given out. An allocation is written down before a host hears of
// it, and an address is free again only when the host no longer has its entry.
//
// # On the hosts
//
// A libvirt network has the name of its Network document, a UUID made from the gateway's id, and a bridge named by us. The
// part of a network that is on one host is a segment: the entries of all VMs that are there. A segment is brought to its
// host in one call, one at a time, and all who wait for it share the next call, so that 500 VMs that join at once lead to
// a few calls and not to 500 that each carry all. The last VM that leaves a segment takes the network off the host.
//
// An interface that is taken from a VM's document stays on its network until the domain has let go of it (Retiring): a
// network is never removed under a domain. A network that was not made by this gateway is used and never changed.
package network
