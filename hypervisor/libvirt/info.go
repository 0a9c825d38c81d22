//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// readHost reads what new domains are made of.
func readHost(c *libvirt.Connect) (definition.Host, error) {
	var none definition.Host

	driver, err := c.GetType()
	if err != nil {
		return none, err
	}

	version, err := c.GetLibVersion()
	if err != nil {
		return none, err
	}

	capabilities, err := c.GetCapabilities()
	if err != nil {
		return none, err
	}

	host, err := definition.ParseHost(driver, capabilities, version)
	if err != nil {
		return none, err
	}

	if !host.KVM {
		return host, nil
	}

	// The capabilities may still have it from an earlier look at the host.
	if _, err := c.GetDomainCapabilities(host.Emulator, host.Arch, host.Machine, host.Type, 0); err != nil {
		return host.Emulated(), nil
	}

	return host, nil
}

// Info implements hypervisor.Driver.
func (d *driver) Info(ctx context.Context) (hypervisor.Info, error) {
	return call(ctx, d, request{doing: "describing", subject: d.uri, lane: d.reads}, func(c *libvirt.Connect) (hypervisor.Info, error) {
		host := d.madeOf()
		info := hypervisor.Info{Driver: host.Driver, Arch: host.Arch, KVM: host.KVM}

		version, err := c.GetVersion()
		if err != nil {
			return info, err
		}

		info.Version = fmt.Sprintf("%d.%d.%d", version/1_000_000, version/1_000%1_000, version%1_000)

		if info.Hostname, err = c.GetHostname(); err != nil {
			return info, err
		}

		node, err := c.GetNodeInfo()
		if err != nil {
			return info, err
		}

		info.Capacity = resources.Capacity{CPUs: int(node.Cpus), Memory: resources.Size(node.Memory) * resources.KiB}
		info.Capacity.Disk, err = d.diskCapacity(c)

		return info, err
	})
}

// diskCapacity returns the size of the file system for volumes: as our pool says once it exists, before that as the file
// system of this machine says, where the hypervisor is on it; else 0, which is unknown.
func (d *driver) diskCapacity(c *libvirt.Connect) (resources.Size, error) {
	pool, err := c.LookupStoragePoolByUUIDString(hypervisor.PoolUUID(d.gateway))
	if err != nil {
		if isCode(err, libvirt.ERR_NO_STORAGE_POOL, libvirt.ERR_NO_SUPPORT) {
			return d.localDisk(), nil
		}

		return 0, err
	}
	defer freePool(pool)

	info, err := pool.GetInfo()
	if err != nil {
		return 0, err
	}

	if info.State != libvirt.STORAGE_POOL_RUNNING {
		return d.localDisk(), nil
	}

	return resources.Size(info.Capacity), nil
}

// localDisk returns the size of the file system of the images, where the hypervisor is on this machine.
func (d *driver) localDisk() resources.Size {
	u, err := url.Parse(d.uri)
	if err != nil || u.Host != "" || strings.Contains(u.Scheme, "+") || !d.madeOf().IsQEMU() {
		return 0
	}

	var fs unix.Statfs_t
	if unix.Statfs(imagesDirectory, &fs) != nil {
		return 0
	}

	return resources.Size(fs.Blocks) * resources.Size(fs.Bsize)
}
