package network

import (
	"net/netip"
	"slices"
	"time"

	"gateway/hypervisor"
)

const (
	// coolFor is how long an address that became free is kept from others: the DHCP server of its host may have a lease of it
	// for that long, and gives the next owner another address meanwhile. The margin is for clocks and the call itself.
	coolFor = hypervisor.LeaseTime + 10*time.Second
	// maxCooling bounds the addresses of a network that are kept back, and so what an allocation passes over: 1,024 look-ups
	// are a tenth of a millisecond. Beyond it the oldest may be given away early.
	maxCooling = 1024
)

// cooling are addresses that became free a short while ago. It is a preference: where nothing else is free they are given
// away all the same, and a gateway that starts knows of none.
type cooling struct {
	// queue has them in the order of their time, beside those that were taken or added again meanwhile.
	queue []cooled
	// latest has the newest of each address.
	latest map[netip.Addr]cooled
	// added counts all that were added.
	added uint64
}

// cooled is an address that was a VM's until a time.
type cooled struct {
	address netip.Addr
	vm      string
	until   time.Time
	// number tells apart what became free at one time.
	number uint64
}

// add keeps an address back that was a VM's until now.
func (c *cooling) add(address netip.Addr, vm string, now time.Time) {
	if c.latest == nil {
		c.latest = map[netip.Addr]cooled{}
	}

	c.expire(now)

	c.added++
	entry := cooled{address: address, vm: vm, until: now.Add(coolFor), number: c.added}
	c.queue, c.latest[address] = append(c.queue, entry), entry

	if len(c.queue) <= 2*maxCooling {
		return
	}

	c.queue = slices.DeleteFunc(c.queue, func(e cooled) bool { return c.latest[e.address] != e })

	for len(c.queue) > maxCooling {
		c.drop()
	}
}

// taken forgets an address that somebody has again.
func (c *cooling) taken(address netip.Addr) { delete(c.latest, address) }

// drop forgets the oldest, unless it was taken or added again.
func (c *cooling) drop() {
	oldest := c.queue[0]
	c.queue = c.queue[1:]

	if c.latest[oldest.address] == oldest {
		delete(c.latest, oldest.address)
	}
}

// expire forgets those whose time is over.
func (c *cooling) expire(now time.Time) {
	for len(c.queue) > 0 && !now.Before(c.queue[0].until) {
		c.drop()
	}
}

// hot reports whether an address was another VM's a short while ago.
func (c *cooling) hot(address netip.Addr, vm string) bool {
	entry, found := c.latest[address]

	return found && entry.vm != vm
}
