//go:build libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"
	"net/url"
	"path"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// imagesDirectory is where hypervisors keep images, and where their security profiles let QEMU read them.
const imagesDirectory = "/var/lib/libvirt/images"

// poolName is the name of the pool in which a gateway keeps its volumes, and of its directory. It has the gateway's id, so
// that two gateways on a host don't meet.
func (d *driver) poolName() string { return "gateway-" + d.gateway }

// poolDirectory is where the pool's volumes are on the host.
func (d *driver) poolDirectory() (string, error) {
	u, err := url.Parse(d.uri)
	if err == nil && u.Path == "/session" {
		return "", fmt.Errorf("%w: volumes at %s: a session has no directory for images of its own; give disks a path", hypervisor.ErrUnsupported, d.uri)
	}

	return path.Join(imagesDirectory, d.poolName()), nil
}

// pool returns our pool, active, and makes it where it is missing.
func (d *driver) pool(c *libvirt.Connect) (*libvirt.StoragePool, error) {
	pool, err := d.existingPool(c)
	if err != nil || pool != nil {
		return pool, err
	}

	if pool, err = d.definePool(c); err != nil {
		return nil, err
	}

	if err := activate(pool); err != nil {
		freePool(pool)

		return nil, err
	}

	return pool, nil
}

func (d *driver) definePool(c *libvirt.Connect) (*libvirt.StoragePool, error) {
	directory, err := d.poolDirectory()
	if err != nil {
		return nil, err
	}

	// A pool of this name that has another UUID is not ours.
	if other, err := c.LookupStoragePoolByName(d.poolName()); err == nil {
		freePool(other)

		return nil, fmt.Errorf("%w: storage pool %q", hypervisor.ErrForeign, d.poolName())
	}

	text, err := definition.Pool(d.poolName(), hypervisor.PoolUUID(d.gateway), directory)
	if err != nil {
		return nil, err
	}

	return c.StoragePoolDefineXML(text, 0)
}

// activate starts a pool that is not, after its directory is made.
func activate(pool *libvirt.StoragePool) error {
	active, err := pool.IsActive()
	if err != nil || active {
		return err
	}

	// It makes the directory, and is content with one that is there.
	if err := known(pool.Build(libvirt.STORAGE_POOL_BUILD_NEW)); err != nil {
		return err
	}

	err = pool.Create(libvirt.STORAGE_POOL_CREATE_NORMAL)
	if err == nil {
		return nil
	}

	if active, again := pool.IsActive(); again == nil && active {
		return nil
	}

	return err
}

// refresh lets a pool look at its directory: it knows only of files that came through libvirt, or were there when it
// started.
func refresh(pool *libvirt.StoragePool) error {
	if err := pool.Refresh(0); err != nil {
		return fmt.Errorf("error refreshing the pool: %w", err)
	}

	return nil
}

// volume returns a volume of a pool, after another look where the pool knows of none.
func volume(pool *libvirt.StoragePool, name string) (*libvirt.StorageVol, definition.VolumeState, error) {
	vol, state, err := lookupVolume(pool, name)
	if err == nil || !errors.Is(classify(err), hypervisor.ErrNotFound) {
		return vol, state, err
	}

	if err := refresh(pool); err != nil {
		return nil, state, err
	}

	return lookupVolume(pool, name)
}

func lookupVolume(pool *libvirt.StoragePool, name string) (*libvirt.StorageVol, definition.VolumeState, error) {
	var state definition.VolumeState

	vol, err := pool.LookupStorageVolByName(name)
	if err != nil {
		return nil, state, err
	}

	// Reading it looks at the file: a pool still lists one that was removed behind its back.
	text, err := vol.GetXMLDesc(0)
	if err == nil {
		state, err = definition.ParseVolume(text)
	}

	if err != nil {
		freeVolume(vol)

		return nil, state, err
	}

	return vol, state, nil
}

// freePool and freeVolume let go of a handle. They fail only for a handle that is none.
func freePool(pool *libvirt.StoragePool) { _ = pool.Free() }
func freeVolume(vol *libvirt.StorageVol) { _ = vol.Free() }
