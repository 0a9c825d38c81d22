//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// ReadFile implements hypervisor.Driver. libvirt shows only files that are in a pool: one whose directory is in none is seen
// through a pool that exists as long as the call.
func (d *driver) ReadFile(ctx context.Context, name string, content io.Writer) (hypervisor.File, error) {
	r := request{doing: "reading file", subject: name, lane: d.transfers, key: filesKey(name)}

	return call(ctx, d, r, func(c *libvirt.Connect) (none hypervisor.File, err error) {
		vol, leave, err := d.fileVolume(c, name)
		if err != nil {
			return none, err
		}
		defer leave()
		defer freeVolume(vol)

		text, err := vol.GetXMLDesc(0)
		if err != nil {
			return none, err
		}

		state, err := definition.ParseVolume(text)
		if err != nil {
			return none, err
		}

		file := hypervisor.File{Bytes: lengthOf(&state), VirtualSize: state.Capacity}

		if content != nil {
			received, err := download(c, vol, content)
			if err != nil {
				return none, err
			}

			file.Bytes = resources.Size(received)
		}

		return file, nil
	})
}

// filesKey makes those wait for each other who look into one directory.
func filesKey(name string) string { return "files/" + path.Dir(name) }

// fileVolume returns a file of the host as a volume, and what lets go of it.
func (d *driver) fileVolume(c *libvirt.Connect, name string) (vol *libvirt.StorageVol, leave func(), err error) {
	leave = func() {}

	vol, err = c.LookupStorageVolByPath(name)
	if err == nil || !isCode(err, libvirt.ERR_NO_STORAGE_VOL) {
		return vol, leave, err
	}

	pool, err := poolAt(c, path.Dir(name))
	if err != nil {
		return nil, leave, err
	}

	if pool == nil {
		if pool, err = d.passingPool(c, path.Dir(name)); err != nil {
			return nil, leave, err
		}

		passing := pool
		leave = func() {
			// It fails where the connection is lost: the next one to look there uses the pool, and ends it.
			_ = passing.Destroy()
			freePool(passing)
		}
	} else {
		defer freePool(pool)
	}

	if err := refresh(pool); err != nil {
		leave()

		return nil, func() {}, err
	}

	vol, err = c.LookupStorageVolByPath(name)
	if err != nil {
		leave()

		return nil, func() {}, err
	}

	return vol, leave, nil
}

// poolAt returns the active pool of a directory that is not one of ours for a moment; nil: there is none.
func poolAt(c *libvirt.Connect, directory string) (*libvirt.StoragePool, error) {
	pools, err := c.ListAllStoragePools(libvirt.CONNECT_LIST_STORAGE_POOLS_ACTIVE | libvirt.CONNECT_LIST_STORAGE_POOLS_PERSISTENT)
	if err != nil {
		return nil, err
	}

	var found *libvirt.StoragePool

	for i := range pools {
		text, err := pools[i].GetXMLDesc(0)
		if err == nil {
			target, failed := definition.PoolPath(text)
			if failed == nil && target == directory && found == nil {
				found = &pools[i]

				continue
			}
		}

		freePool(&pools[i])
	}

	return found, nil
}

// passingPool makes a transient pool of a directory. One that is left of a call that was interrupted is used.
func (d *driver) passingPool(c *libvirt.Connect, directory string) (*libvirt.StoragePool, error) {
	sum := sha256.Sum256([]byte(directory))
	name := fmt.Sprintf("gateway-%s-files-%x", d.gateway, sum[:6])
	uuid := hypervisor.PoolUUID(d.gateway + "/files" + directory)

	pool, err := c.LookupStoragePoolByUUIDString(uuid)
	if !isCode(err, libvirt.ERR_NO_STORAGE_POOL) {
		return pool, err
	}

	text, err := definition.Pool(name, uuid, directory)
	if err != nil {
		return nil, err
	}

	pool, err = c.StoragePoolCreateXML(text, 0)
	if err != nil && strings.Contains(err.Error(), "No such file or directory") {
		err = fmt.Errorf("%w: there is no directory %s", hypervisor.ErrNotFound, directory)
	}

	return pool, err
}
