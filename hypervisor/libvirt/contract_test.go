//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/hypervisor/contract"
	"gateway/resources"
	"gateway/test/libvirtd"
)

// gatewayID marks what the tests make.
const gatewayID = "contract"

// testDriver is what libvirt's test driver can do: it invents addresses, and its guests shut down at once.
var testDriver = contract.Capabilities{Networks: true, Volumes: true, Pause: true, Shutdown: true, EventsOrdered: true}

func TestContractTestDriver(t *testing.T) {
	contract.Run(t, harness(t, "test:///default", testDriver))
}

// harness runs the contract at a URI, where it works as somebody else over a connection of its own.
func harness(t *testing.T, uri string, can contract.Capabilities) contract.Harness {
	t.Helper()
	require.NoError(t, startEventLoop())

	other := &other{uri: uri}

	return contract.Harness{
		Gateway:      gatewayID,
		Capabilities: can,
		Open:         func(t *testing.T) hypervisor.Driver { return openAs(t, uri, gatewayID) },
		OpenAs:       func(t *testing.T, gateway string) hypervisor.Driver { return openAs(t, uri, gateway) },
		Behind: contract.Behind{
			Define:        other.define,
			Start:         other.on((*libvirt.Domain).Create),
			Destroy:       other.destroy,
			Undefine:      other.on((*libvirt.Domain).Undefine),
			SetMemory:     other.setMemory,
			AddDisk:       other.addDisk,
			DefineNetwork: other.defineNetwork,
			RemoveNetwork: other.removeNetwork,
		},
	}
}

// openAs connects with an id.
func openAs(t *testing.T, uri, gateway string) hypervisor.Driver {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	d, err := Open(ctx, uri, gateway)
	require.NoError(t, err)

	return d
}

// other is somebody else who works on the same hypervisor, over a new connection each time.
type other struct{ uri string }

func (o *other) connect(t *testing.T) *libvirt.Connect {
	t.Helper()

	conn, err := libvirt.NewConnect(o.uri)
	require.NoError(t, err)
	t.Cleanup(func() { closeQuietly(conn) })

	return conn
}

func (o *other) domain(t *testing.T, uuid string) *libvirt.Domain {
	t.Helper()

	dom, err := o.connect(t).LookupDomainByUUIDString(uuid)
	require.NoError(t, err)
	t.Cleanup(func() { freeDomain(dom) })

	return dom
}

func (o *other) on(do func(*libvirt.Domain) error) func(*testing.T, string) {
	return func(t *testing.T, uuid string) {
		t.Helper()
		require.NoError(t, do(o.domain(t, uuid)))
	}
}

func (o *other) destroy(t *testing.T, uuid string) {
	t.Helper()

	dom := o.domain(t, uuid)

	on, err := dom.IsActive()
	require.NoError(t, err)

	if on {
		require.NoError(t, dom.Destroy())
	}
}

// define makes a domain as a person would, of the simplest kind.
func (o *other) define(t *testing.T, name, uuid string) {
	t.Helper()

	conn := o.connect(t)

	host, err := readHost(conn)
	require.NoError(t, err)

	host = host.Emulated()
	doc := libvirtxml.Domain{
		Type: host.Type, Name: name, UUID: uuid,
		Memory: &libvirtxml.DomainMemory{Value: 64, Unit: "MiB"},
		VCPU:   &libvirtxml.DomainVCPU{Value: 1},
		OS:     &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm", Arch: host.Arch, Machine: host.Machine}},
	}

	text, err := doc.Marshal()
	require.NoError(t, err)

	dom, err := conn.DomainDefineXML(text)
	require.NoError(t, err)
	freeDomain(dom)
}

func (o *other) setMemory(t *testing.T, uuid string, memory resources.Size) {
	t.Helper()

	dom := o.domain(t, uuid)
	require.NoError(t, dom.SetMemoryFlags(uint64(memory/resources.KiB), libvirt.DOMAIN_MEM_CONFIG|libvirt.DOMAIN_MEM_MAXIMUM))
	require.NoError(t, dom.SetMemoryFlags(uint64(memory/resources.KiB), libvirt.DOMAIN_MEM_CONFIG))
}

// addDisk edits the definition, as `virsh edit` does.
func (o *other) addDisk(t *testing.T, uuid, path string) {
	t.Helper()

	conn := o.connect(t)

	doc, _, err := readDefinition(o.domain(t, uuid))
	require.NoError(t, err)

	doc.Devices.Disks = append(doc.Devices.Disks, libvirtxml.DomainDisk{
		Driver: &libvirtxml.DomainDiskDriver{Type: "raw"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}},
		Target: &libvirtxml.DomainDiskTarget{Dev: "vdz"},
	})

	require.NoError(t, define(conn, doc.Domain))
}

func (o *other) defineNetwork(t *testing.T, name string) {
	t.Helper()

	doc := libvirtxml.Network{Name: name, UUID: uuid.NewString()}

	text, err := doc.Marshal()
	require.NoError(t, err)

	net, err := o.connect(t).NetworkDefineXML(text)
	require.NoError(t, err)
	freeNetwork(net)
}

func (o *other) removeNetwork(t *testing.T, name string) {
	t.Helper()

	net, err := o.connect(t).LookupNetworkByName(name)
	require.NoError(t, err)

	defer freeNetwork(net)

	require.NoError(t, net.Undefine())
}

func TestContractTestDriverInDaemon(t *testing.T) {
	d := libvirtd.New(t, libvirtd.Options{})
	h := harness(t, d.TestURI(), testDriver)
	h.Behind.Disconnect = restart(d)
	contract.Run(t, h)
}

// restart ends all connections to a daemon, as its crash does.
func restart(d *libvirtd.Daemon) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		require.NoError(t, d.Restart(t.Context()))
	}
}

func TestContractQEMU(t *testing.T) {
	t.Parallel()

	d := libvirtd.New(t, libvirtd.Options{})
	guest := libvirtd.NeedGuest(t)
	h := harness(t, d.URI(), contract.Capabilities{
		Networks: true, DHCP: true, Volumes: true, Images: true, Pause: true, Shutdown: true, HotPlug: true, EventsOrdered: true, Console: "guest: ready", Patience: time.Minute,
	})
	h.Prepare = func(spec *hypervisor.DomainSpec) {
		// With less the kernel doesn't unpack.
		spec.Memory = 100 * resources.MiB
		spec.Boot = &resources.Boot{Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: guest.Cmdline}
	}
	h.Behind.Disconnect = restart(d)
	h.Behind.AddFile = func(t *testing.T, content []byte) string {
		t.Helper()

		const path = "/var/lib/libvirt/images/golden.img"
		require.NoError(t, os.WriteFile(d.Path(path), content, 0o600))

		return path
	}
	h.Behind.NetworkStarts = func(t *testing.T, name string) int {
		t.Helper()

		// The process of its dnsmasq is another one after a restart.
		text, err := os.ReadFile(d.Path("/run/libvirt/network/" + name + ".pid"))
		require.NoError(t, err)

		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)

		return pid
	}

	contract.Run(t, h)
}
