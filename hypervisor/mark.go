package hypervisor

import (
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"
)

// MetadataNamespace is the XML namespace of the mark that our domains and networks carry.
const MetadataNamespace = "https://gateway.dev/libvirt/1"

// DomainUUID returns the UUID of a VM's domain: UUIDv5 (RFC 9562) of the gateway's id and the VM's name. The same VM has
// the same domain at every try and on every host, so that a second one can't be made by mistake.
func DomainUUID(gateway, vm string) string { return uuidOf(gateway, "vm", vm) }

// NetworkUUID returns the UUID of a network that the gateway makes; it is the mark of networks.
func NetworkUUID(gateway, network string) string { return uuidOf(gateway, "network", network) }

// PoolUUID returns the UUID of the storage pool in which a gateway keeps its volumes on a host; it is the pool's mark.
func PoolUUID(gateway string) string { return uuidOf(gateway, "pool", "") }

// space separates our UUIDs from all others that are made of names.
var space = uuid.NewSHA1(uuid.NameSpaceURL, []byte(MetadataNamespace))

func uuidOf(gateway, kind, name string) string {
	return uuid.NewSHA1(space, []byte(gateway+"\x00"+kind+"\x00"+name)).String()
}

// MAC returns the address of an interface that declares none: QEMU's prefix and 24 bits of a hash of gateway, VM and the
// interface's number. attempt is raised when another interface has that one.
func MAC(gateway, vm string, index, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", gateway, vm, index, attempt))

	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
}

// BridgeName returns the name of the bridge of a network that we make: libvirt's own choice can collide when networks are
// defined at the same time, and a device name has at most 15 characters.
func BridgeName(gateway, network string) string {
	sum := sha256.Sum256([]byte(gateway + "\x00" + network))

	return fmt.Sprintf("gw%x", sum[:5])
}

// VolumeName returns the name of a disk's volume, unique on a host.
func VolumeName(vm, disk string) string { return vm + "." + disk + ".qcow2" }

// SeedName returns the name of the volume with what cloud-init reads: VM.cloud-init.DIGEST.iso, with the first 12 digits of a
// digest of that, so that another content is another volume and a running guest keeps the one that it booted with.
func SeedName(vm, digest string) string { return fmt.Sprintf("%s.cloud-init.%.12s.iso", vm, digest) }
