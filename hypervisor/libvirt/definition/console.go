package definition

import (
	"slices"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

const (
	graphicsNone = "none"
	graphicsVNC  = "vnc"
	agentChannel = "org.qemu.guest_agent.0"
)

// isSocketVNC reports whether graphics are VNC on a unix socket, as we define it: VNC on TCP is somebody else's.
func isSocketVNC(g libvirtxml.DomainGraphic) bool {
	return g.VNC != nil && slices.ContainsFunc(g.VNC.Listeners, func(l libvirtxml.DomainGraphicListener) bool { return l.Socket != nil })
}

func graphicsOf(doc *libvirtxml.Domain) string {
	if slices.ContainsFunc(doc.Devices.Graphics, isSocketVNC) {
		return graphicsVNC
	}

	return graphicsNone
}

func sameGraphics(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	return graphicsOf(doc) == spec.Graphics
}

func setGraphics(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	doc.Devices.Graphics = slices.DeleteFunc(doc.Devices.Graphics, isSocketVNC)

	if spec.Graphics == graphicsVNC {
		doc.Devices.Graphics = append(doc.Devices.Graphics, libvirtxml.DomainGraphic{
			VNC: &libvirtxml.DomainGraphicVNC{
				Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{}}},
			},
		})
	}
}

// HasConsole reports whether a domain has a console that can be attached to: a serial or virtual one that ends at a
// pseudo-terminal or a socket on the host.
func HasConsole(doc *libvirtxml.Domain) bool {
	attachable := func(s *libvirtxml.DomainChardevSource) bool { return s == nil || s.Pty != nil || s.UNIX != nil }

	return slices.ContainsFunc(doc.Devices.Consoles, func(c libvirtxml.DomainConsole) bool { return attachable(c.Source) }) ||
		slices.ContainsFunc(doc.Devices.Serials, func(c libvirtxml.DomainSerial) bool { return attachable(c.Source) })
}

func isAgent(c libvirtxml.DomainChannel) bool {
	return c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == agentChannel
}

func hasAgent(doc *libvirtxml.Domain) bool { return slices.ContainsFunc(doc.Devices.Channels, isAgent) }

// AgentConnected reports whether a guest agent answers in a running domain: asking one that does not answer would hold
// up the domain for its timeout.
func AgentConnected(live *libvirtxml.Domain) bool {
	return slices.ContainsFunc(live.Devices.Channels, func(c libvirtxml.DomainChannel) bool {
		return isAgent(c) && c.Target.VirtIO.State == "connected"
	})
}

func sameGuestAgent(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec) bool {
	return hasAgent(doc) == spec.GuestAgent
}

func setGuestAgent(doc *libvirtxml.Domain, spec *hypervisor.DomainSpec, _ Host) {
	doc.Devices.Channels = slices.DeleteFunc(doc.Devices.Channels, isAgent)

	if spec.GuestAgent {
		doc.Devices.Channels = append(doc.Devices.Channels, libvirtxml.DomainChannel{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
		})
	}
}
