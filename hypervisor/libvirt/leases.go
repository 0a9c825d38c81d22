//go:build libvirt_dlopen

package libvirt

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"strings"

	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
)

// releaseLeases gives back the leases of hosts that left a network. dnsmasq keeps a lease until its time is over, and
// would refuse its address to the next owner until then. libvirt has no call for it: the release is sent as the guest
// would have sent it, which is possible on the hypervisor itself only. Elsewhere, and where it fails, the short leases of
// our networks end by themselves: the address is given to another VM only when none else is free, and that one moves to it
// with its next renewal.
func releaseLeases(net *libvirt.Network, doc *libvirtxml.Network, gone []hypervisor.NetworkHost) {
	if doc.Bridge == nil || len(doc.IPs) == 0 || len(gone) == 0 {
		return
	}

	leases, err := net.GetDHCPLeases()
	if err != nil {
		return
	}

	for _, lease := range leases {
		for _, host := range gone {
			if lease.IPaddr == host.Address && strings.EqualFold(lease.Mac, host.MAC) {
				// What can't be sent ends by itself, as said above.
				_ = sendRelease(doc.Bridge.Name, doc.IPs[0].Address, lease)
			}
		}
	}
}

// sendRelease sends a DHCPRELEASE (RFC 2131) to the server at an address of the bridge.
func sendRelease(bridge, server string, lease libvirt.NetworkDHCPLease) error {
	packet, err := releasePacket(server, lease)
	if err != nil {
		return err
	}

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	// dnsmasq takes it only on the network that the lease is of.
	if err := unix.BindToDevice(fd, bridge); err != nil {
		return err
	}

	to := &unix.SockaddrInet4{Port: 67}
	copy(to.Addr[:], net.ParseIP(server).To4())

	return unix.Sendto(fd, packet, 0, to)
}

// Options of DHCP (RFC 2132).
const (
	optionMessageType = 53
	optionServer      = 54
	optionClient      = 61
	optionEnd         = 255
	messageRelease    = 7
)

func releasePacket(server string, lease libvirt.NetworkDHCPLease) ([]byte, error) {
	mac, err := net.ParseMAC(lease.Mac)
	if err != nil {
		return nil, err
	}

	packet := make([]byte, 236, 300)
	// A request over Ethernet with six bytes of hardware address.
	copy(packet, []byte{1, 1, byte(len(mac)), 0})

	if _, err := rand.Read(packet[4:8]); err != nil {
		return nil, err
	}

	copy(packet[12:16], net.ParseIP(lease.IPaddr).To4())
	copy(packet[28:44], mac)
	packet = append(packet, 99, 130, 83, 99, optionMessageType, 1, messageRelease, optionServer, 4)
	packet = append(packet, net.ParseIP(server).To4()...)

	if client, err := hex.DecodeString(strings.ReplaceAll(lease.Clientid, ":", "")); err == nil && len(client) > 0 && len(client) < 256 {
		packet = append(packet, optionClient, byte(len(client)))
		packet = append(packet, client...)
	}

	return append(packet, optionEnd), nil
}
