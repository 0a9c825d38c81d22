package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gateway/hypervisor"
)

// network is one network of a host, which guards it with its lock.
type network struct {
	// gateway is the id of the gateway that made it.
	gateway string
	// spec is never changed in place. Its hosts are sorted by MAC, which are in lower case.
	spec   hypervisor.NetworkSpec
	active bool
	starts int
}

// entry returns the DHCP entry of a MAC.
func (n *network) entry(mac string) (hypervisor.NetworkHost, bool) {
	i, ok := slices.BinarySearchFunc(n.spec.Hosts, mac, func(e hypervisor.NetworkHost, mac string) int { return strings.Compare(e.MAC, mac) })
	if !ok {
		return hypervisor.NetworkHost{}, false
	}

	return n.spec.Hosts[i], true
}

// sortedHosts returns the entries as they are kept.
func sortedHosts(hosts []hypervisor.NetworkHost) []hypervisor.NetworkHost {
	sorted := slices.Clone(hosts)
	for i := range sorted {
		sorted[i].MAC = strings.ToLower(sorted[i].MAC)
	}

	slices.SortFunc(sorted, func(a, b hypervisor.NetworkHost) int { return strings.Compare(a.MAC, b.MAC) })

	return sorted
}

// checkHosts refuses entries that share a MAC or an address.
func checkHosts(hosts []hypervisor.NetworkHost) error {
	addresses := make(map[string]string, len(hosts))

	for i, e := range hosts {
		if i > 0 && hosts[i-1].MAC == e.MAC {
			return fmt.Errorf("%w: two DHCP entries have the MAC %s", hypervisor.ErrInvalid, e.MAC)
		}

		if other, taken := addresses[e.Address]; taken {
			return fmt.Errorf("%w: the DHCP entries of %s and %s have the address %s", hypervisor.ErrInvalid, other, e.MAC, e.Address)
		}

		addresses[e.Address] = e.MAC
	}

	return nil
}

// Networks implements hypervisor.Driver. The answer is ordered by name.
func (d *driver) Networks(ctx context.Context) (all []hypervisor.Network, err error) {
	err = d.do(ctx, op{call: "Networks", doing: "listing the networks"}, func() error {
		for _, n := range d.host.networks {
			all = append(all, hypervisor.Network{
				Name: n.spec.Name, UUID: n.spec.UUID, Active: n.active, Bridge: n.spec.Bridge,
				Ours: n.gateway == d.gateway, Hosts: slices.Clone(n.spec.Hosts),
			})
		}

		return nil
	})

	slices.SortFunc(all, func(a, b hypervisor.Network) int { return strings.Compare(a.Name, b.Name) })

	return all, err
}

// EnsureNetwork implements hypervisor.Driver.
func (d *driver) EnsureNetwork(ctx context.Context, spec hypervisor.NetworkSpec) (changed bool, err error) {
	err = d.do(ctx, op{call: "EnsureNetwork", doing: "making network", subject: spec.Name}, func() (err error) {
		changed, err = d.ensureNetwork(spec)

		return err
	})

	return changed, err
}

func (d *driver) ensureNetwork(spec hypervisor.NetworkSpec) (bool, error) {
	spec.Hosts = sortedHosts(spec.Hosts)

	if err := checkHosts(spec.Hosts); err != nil {
		return false, err
	}

	current := d.host.networks[spec.Name]
	if current == nil {
		d.host.setNetwork(&network{gateway: d.gateway, spec: spec, active: true, starts: 1})

		return true, nil
	}

	if current.gateway != d.gateway {
		return false, hypervisor.ErrForeign
	}

	sameHosts := slices.Equal(current.spec.Hosts, spec.Hosts)
	restart := !current.active || !sameBut(current.spec, spec)

	if sameHosts && !restart {
		return false, nil
	}

	next := &network{gateway: d.gateway, spec: spec, active: true, starts: current.starts}
	if restart {
		next.starts++
	}

	d.host.setNetwork(next)

	return true, nil
}

// sameBut reports whether two networks are the same but for their hosts.
func sameBut(a, b hypervisor.NetworkSpec) bool {
	return a.UUID == b.UUID && a.Mode == b.Mode && a.Subnet == b.Subnet && a.First == b.First && a.Last == b.Last &&
		a.Domain == b.Domain && a.Bridge == b.Bridge
}

// RemoveNetwork implements hypervisor.Driver.
func (d *driver) RemoveNetwork(ctx context.Context, name string) error {
	return d.do(ctx, op{call: "RemoveNetwork", doing: "removing network", subject: name}, func() error {
		n := d.host.networks[name]
		if n == nil {
			return nil
		}

		if n.gateway != d.gateway {
			return hypervisor.ErrForeign
		}

		d.host.networkLeaves(name)
		d.host.removeNetwork(name)

		return nil
	})
}

// networkLeaves notes when a network is taken away from under a domain that is on.
func (h *Host) networkLeaves(name string) {
	for uuid, dom := range h.domains {
		if dom.live == nil {
			continue
		}

		for _, nic := range dom.live.Interfaces {
			if nic.Network == name {
				h.violate("network %q was removed under domain %q (%s)", name, dom.spec.Name, uuid)
			}
		}
	}
}

func (h *Host) setNetwork(n *network) {
	h.networks[n.spec.Name] = n
	h.record(record{Network: networkRecordOf(n)})
}

func (h *Host) removeNetwork(name string) {
	delete(h.networks, name)
	h.record(record{NetworkGone: name})
}
