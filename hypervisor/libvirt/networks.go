//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

func networkKey(name string) string { return "network/" + name }

// Networks implements hypervisor.Driver.
func (d *driver) Networks(ctx context.Context) ([]hypervisor.Network, error) {
	return call(ctx, d, request{doing: "listing the networks", lane: d.reads}, func(c *libvirt.Connect) ([]hypervisor.Network, error) {
		handles, err := c.ListAllNetworks(0)
		if err != nil {
			return nil, err
		}

		all := make([]hypervisor.Network, 0, len(handles))

		for i := range handles {
			seen, err := d.observeNetwork(&handles[i])
			freeNetwork(&handles[i])

			// It was removed since it was listed.
			if isCode(err, libvirt.ERR_NO_NETWORK) {
				continue
			}

			if err != nil {
				return nil, err
			}

			all = append(all, seen)
		}

		slices.SortFunc(all, func(a, b hypervisor.Network) int { return strings.Compare(a.Name, b.Name) })

		return all, nil
	})
}

func (d *driver) observeNetwork(net *libvirt.Network) (hypervisor.Network, error) {
	doc, err := d.configOf(net)
	if err != nil {
		return hypervisor.Network{}, err
	}

	active, err := net.IsActive()
	if err != nil {
		return hypervisor.Network{}, err
	}

	seen := hypervisor.Network{
		Name: doc.Name, UUID: doc.UUID, Active: active, Ours: d.isOurNetwork(doc), Hosts: definition.HostsOf(doc),
	}
	if doc.Bridge != nil {
		seen.Bridge = doc.Bridge.Name
	}

	return seen, nil
}

// isOurNetwork reports whether this gateway made a network: its UUID is then the one that follows from its name.
func (d *driver) isOurNetwork(doc *libvirtxml.Network) bool {
	return doc.UUID == hypervisor.NetworkUUID(d.gateway, doc.Name)
}

// configOf returns the definition of a network, liveOf what runs of it. The test driver has one for both.
func (d *driver) configOf(net *libvirt.Network) (*libvirtxml.Network, error) {
	var flags libvirt.NetworkXMLFlags
	if d.madeOf().IsQEMU() {
		flags = libvirt.NETWORK_XML_INACTIVE
	}

	return readNetwork(net, flags)
}

func liveOf(net *libvirt.Network) (*libvirtxml.Network, error) { return readNetwork(net, 0) }

func readNetwork(net *libvirt.Network, flags libvirt.NetworkXMLFlags) (*libvirtxml.Network, error) {
	text, err := net.GetXMLDesc(flags)
	if err != nil {
		return nil, err
	}

	return definition.ParseNetwork(text)
}

// EnsureNetwork implements hypervisor.Driver.
func (d *driver) EnsureNetwork(ctx context.Context, spec hypervisor.NetworkSpec) (bool, error) {
	r := request{doing: "making network", subject: spec.Name, lane: d.writes, key: networkKey(spec.Name)}

	return call(ctx, d, r, func(c *libvirt.Connect) (bool, error) {
		net, err := c.LookupNetworkByName(spec.Name)
		if isCode(err, libvirt.ERR_NO_NETWORK) {
			return true, d.createNetwork(c, &spec)
		}

		if err != nil {
			return false, err
		}
		defer freeNetwork(net)

		return d.changeNetwork(c, net, &spec)
	})
}

func (d *driver) createNetwork(c *libvirt.Connect, spec *hypervisor.NetworkSpec) error {
	doc := &libvirtxml.Network{}
	if err := definition.SetNetwork(doc, spec, d.madeOf()); err != nil {
		return err
	}

	return defineNetwork(c, doc, (*libvirt.Network).Create)
}

// defineNetwork writes the definition of a network, and lets then do what follows.
func defineNetwork(c *libvirt.Connect, doc *libvirtxml.Network, then func(*libvirt.Network) error) error {
	text, err := doc.Marshal()
	if err != nil {
		return fmt.Errorf("error writing the definition: %w", err)
	}

	net, err := c.NetworkDefineXML(text)
	if err != nil {
		return err
	}
	defer freeNetwork(net)

	return then(net)
}

// changeNetwork makes an existing network as it was declared.
func (d *driver) changeNetwork(c *libvirt.Connect, net *libvirt.Network, spec *hypervisor.NetworkSpec) (bool, error) {
	config, err := d.configOf(net)
	if err != nil {
		return false, err
	}

	if config.UUID != spec.UUID {
		return false, hypervisor.ErrForeign
	}

	wanted := *config
	if err := definition.SetNetwork(&wanted, spec, d.madeOf()); err != nil {
		return false, err
	}

	if !definition.SameNetwork(config, &wanted) {
		return true, d.restartNetwork(c, net, &wanted)
	}

	changed, err := changeHosts(net, config, spec, libvirt.NETWORK_UPDATE_AFFECT_CONFIG)
	if err != nil {
		return changed, err
	}

	active, err := net.IsActive()
	if err != nil {
		return changed, err
	}

	if !active {
		return true, net.Create()
	}

	live, err := liveOf(net)
	if err != nil {
		return changed, err
	}

	liveChanged, err := changeHosts(net, live, spec, libvirt.NETWORK_UPDATE_AFFECT_LIVE)
	if err == nil && liveChanged {
		releaseLeases(net, live, definition.GoneHosts(live, spec.Hosts))
	}

	return changed || liveChanged, err
}

// restartNetwork gives a network a new definition, and a new start with it. Where guests are on it the start is left to
// whoever may cut them off: libvirt doesn't put them back on the new bridge.
func (d *driver) restartNetwork(c *libvirt.Connect, net *libvirt.Network, wanted *libvirtxml.Network) error {
	active, err := net.IsActive()
	if err != nil {
		return err
	}

	if active {
		ports, err := net.ListAllPorts(0)
		if err := known(err); err != nil {
			return err
		}

		for i := range ports {
			// It fails only for a handle that is none.
			_ = ports[i].Free()
		}

		if len(ports) > 0 {
			return fmt.Errorf("%w: the network has to be restarted for this, and %d interfaces are on it", hypervisor.ErrBusy, len(ports))
		}
	}

	return defineNetwork(c, wanted, func(net *libvirt.Network) error {
		if active {
			if err := net.Destroy(); err != nil {
				return err
			}
		}

		return net.Create()
	})
}

// changeHosts updates the hosts of a network's definition, or of what runs of it, without a restart. Each half is compared
// by itself: they differ where one of them was changed by somebody else.
func changeHosts(net *libvirt.Network, doc *libvirtxml.Network, spec *hypervisor.NetworkSpec, flags libvirt.NetworkUpdateFlags) (bool, error) {
	changes, err := definition.HostChanges(doc, spec.Hosts)
	if err != nil {
		return false, err
	}

	for _, change := range changes {
		section := libvirt.NETWORK_SECTION_IP_DHCP_HOST
		if change.DNS {
			section = libvirt.NETWORK_SECTION_DNS_HOST
		}

		command := libvirt.NETWORK_UPDATE_COMMAND_DELETE
		if change.Add {
			command = libvirt.NETWORK_UPDATE_COMMAND_ADD_LAST
		}

		if err := net.Update(command, section, -1, change.XML, flags); err != nil {
			return true, err
		}
	}

	return len(changes) > 0, nil
}

// RemoveNetwork implements hypervisor.Driver.
func (d *driver) RemoveNetwork(ctx context.Context, name string) error {
	r := request{doing: "removing network", subject: name, lane: d.writes, key: networkKey(name)}

	err := do(ctx, d, r, func(c *libvirt.Connect) error {
		net, err := c.LookupNetworkByName(name)
		if err != nil {
			return err
		}
		defer freeNetwork(net)

		doc, err := d.configOf(net)
		if err != nil {
			return err
		}

		if !d.isOurNetwork(doc) {
			return hypervisor.ErrForeign
		}

		return removeNetwork(net)
	})
	if errors.Is(err, hypervisor.ErrNotFound) {
		return nil
	}

	return err
}

func removeNetwork(net *libvirt.Network) error {
	active, err := net.IsActive()
	if err != nil {
		return err
	}

	persistent, err := net.IsPersistent()
	if err != nil {
		return err
	}

	if active {
		if err := net.Destroy(); err != nil {
			return err
		}
	}

	if !persistent {
		return nil
	}

	return net.Undefine()
}

// freeNetwork lets go of a handle. It fails only for a handle that is none.
func freeNetwork(net *libvirt.Network) { _ = net.Free() }
