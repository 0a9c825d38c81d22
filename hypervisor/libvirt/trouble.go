//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"
	"path"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// enoughRoom is how much room a storage has to have before a guest that ran out of it goes on: with less it would stop again
// within moments. A qcow2 file grows by 64 KiB at a time.
const enoughRoom = 16 * resources.MiB

// DiskTrouble implements hypervisor.Driver. QEMU tells which disk failed, and whether for want of room, until the guest is
// resumed; libvirt tells how much room there is by now where the file is in one of its pools.
func (d *driver) DiskTrouble(ctx context.Context, uuid string) (string, error) {
	r := request{doing: "looking at the disks of domain", subject: uuid, lane: d.writes}

	return call(ctx, d, r, func(c *libvirt.Connect) (string, error) {
		dom, err := c.LookupDomainByUUIDString(uuid)
		if err != nil {
			return "", err
		}
		defer freeDomain(dom)

		failed, err := dom.GetDiskErrors(0)
		if known(err) != nil {
			return "", err
		}

		doc, _, err := readDefinition(dom)
		if err != nil {
			return "", err
		}

		files := definition.FilesByTarget(doc.Domain)

		var troubles []string

		for _, f := range failed {
			if f.Error != libvirt.DOMAIN_DISK_ERROR_NO_SPACE {
				continue
			}

			free, known, err := roomFor(c, files[f.Disk])
			if err != nil {
				return "", err
			}

			if known && free < enoughRoom {
				troubles = append(troubles, fmt.Sprintf("disk %s (%s) has no room: %s are left, %s are needed to go on",
					f.Disk, files[f.Disk], free, enoughRoom))
			}
		}

		return strings.Join(troubles, "; "), nil
	})
}

// roomFor returns how much room is left where a file is, if that is a pool's directory.
func roomFor(c *libvirt.Connect, file string) (free resources.Size, known bool, err error) {
	pool, err := c.LookupStoragePoolByTargetPath(path.Dir(file))
	if isCode(err, libvirt.ERR_NO_STORAGE_POOL, libvirt.ERR_INVALID_ARG) || isUnsupported(err) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, err
	}
	defer freePool(pool)

	// Without this it says how it was when the pool was last looked through.
	if err := pool.Refresh(0); err != nil {
		return 0, false, err
	}

	info, err := pool.GetInfo()
	if err != nil {
		return 0, false, err
	}

	return resources.Size(info.Available), true, nil
}

// isUnsupported reports whether the hypervisor has no such thing.
func isUnsupported(err error) bool { return err != nil && known(err) == nil }
