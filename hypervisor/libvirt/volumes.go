//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// poolKey makes all changes of volumes wait for each other: a pool refuses to be refreshed while it makes a volume.
const poolKey = "pool"

// EnsureVolume implements hypervisor.Driver.
//
// libvirt can't rename a volume, so that none can be made under a temporary name. What an interrupted creation leaves is
// told from a volume in use instead: a qcow2 file gets its header, its size and its image in that order, and occupies next
// to nothing until a guest writes to it. A volume that lacks one of the three, with nothing in it, was never handed out, and
// is made anew.
func (d *driver) EnsureVolume(ctx context.Context, spec hypervisor.VolumeSpec) (string, bool, error) {
	type result struct {
		path    string
		created bool
	}

	r := request{doing: "making volume", subject: spec.Name, lane: d.writes, key: poolKey}

	made, err := call(ctx, d, r, func(c *libvirt.Connect) (made result, err error) {
		if err := checkVolumeName(spec.Name); err != nil {
			return made, err
		}

		pool, err := d.pool(c)
		if err != nil {
			return made, err
		}
		defer freePool(pool)

		made.path, made.created, err = d.ensureVolume(c, pool, &spec)

		return made, err
	})

	return made.path, made.created, err
}

// checkVolumeName refuses names that would lead out of the pool's directory.
func checkVolumeName(name string) error {
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%w: %q is no name of a volume", hypervisor.ErrInvalid, name)
	}

	return nil
}

func (d *driver) ensureVolume(c *libvirt.Connect, pool *libvirt.StoragePool, spec *hypervisor.VolumeSpec) (string, bool, error) {
	switch {
	case spec.Content != nil:
		return ensureContent(c, pool, spec)
	case spec.Copy && spec.Backing != "":
		if done, err := d.ensureCopy(c, pool, spec); err != nil || done != nil {
			return done.path(), done != nil, err
		}
	}

	vol, state, err := lookupVolume(pool, spec.Name)
	if isCode(err, libvirt.ERR_NO_STORAGE_VOL) && spec.MustExist {
		// Before it is called gone the pool has to look.
		vol, state, err = volume(pool, spec.Name)
	}

	switch {
	case err == nil:
	case isCode(err, libvirt.ERR_NO_STORAGE_VOL) && !spec.MustExist:
		return d.createVolume(c, pool, spec)
	default:
		return "", false, err
	}
	defer freeVolume(vol)

	if !spec.MustExist && d.madeOf().IsQEMU() && state.Unfinished(spec) {
		if err := vol.Delete(0); err != nil {
			return "", false, err
		}

		return d.createVolume(c, pool, spec)
	}

	return state.Path, false, d.grow(c, pool, vol, state, spec)
}

func (d *driver) createVolume(c *libvirt.Connect, pool *libvirt.StoragePool, spec *hypervisor.VolumeSpec) (string, bool, error) {
	if err := notCut(c, spec); err != nil {
		return "", false, err
	}

	text, err := definition.Volume(spec)
	if err != nil {
		return "", false, err
	}

	vol, err := pool.StorageVolCreateXML(text, 0)
	if err == nil {
		defer freeVolume(vol)

		path, err := vol.GetPath()

		return path, true, err
	}

	// A file that came there without the pool's knowledge is an existing volume.
	found, state, lookup := volume(pool, spec.Name)
	if lookup != nil {
		return "", false, err
	}
	defer freeVolume(found)

	if state.Unfinished(spec) {
		return "", false, err
	}

	return state.Path, false, d.grow(c, pool, found, state, spec)
}

// notCut refuses a volume that is smaller than the image that it starts from, which would cut off its end.
func notCut(c *libvirt.Connect, spec *hypervisor.VolumeSpec) error {
	if spec.Backing == "" || spec.Size == 0 {
		return nil
	}

	image, err := c.LookupStorageVolByPath(spec.Backing)
	if isCode(err, libvirt.ERR_NO_STORAGE_VOL) {
		return nil // no pool has it: libvirt can't say how large it is
	}

	if err != nil {
		return err
	}
	defer freeVolume(image)

	info, err := image.GetInfo()
	if err == nil && uint64(spec.Size) < info.Capacity {
		err = fmt.Errorf("%w: %s is smaller than its image of %s", hypervisor.ErrInvalid, spec.Size, resources.Size(info.Capacity))
	}

	return err
}

// grow makes a volume larger, never smaller: through its domain where that is on, because QEMU has the file open then.
func (d *driver) grow(c *libvirt.Connect, pool *libvirt.StoragePool, vol *libvirt.StorageVol, state definition.VolumeState, spec *hypervisor.VolumeSpec) error {
	if spec.Size <= state.Capacity {
		return nil
	}

	if !d.madeOf().IsQEMU() {
		return replaceVolume(pool, vol, spec)
	}

	vm, _, _ := strings.Cut(spec.Name, ".")

	dom, err := c.LookupDomainByUUIDString(hypervisor.DomainUUID(d.gateway, vm))
	if isCode(err, libvirt.ERR_NO_DOMAIN) {
		return vol.Resize(uint64(spec.Size), 0)
	}

	if err != nil {
		return err
	}
	defer freeDomain(dom)

	text, err := dom.GetXMLDesc(0)
	if err != nil {
		return err
	}

	live, err := definition.Parse(text)
	if err != nil {
		return err
	}

	on, err := dom.IsActive()
	if err != nil {
		return err
	}

	if !on || !definition.HasDisk(live, state.Path) {
		return vol.Resize(uint64(spec.Size), 0)
	}

	return dom.BlockResize(state.Path, uint64(spec.Size), libvirt.DOMAIN_BLOCK_RESIZE_BYTES)
}

// replaceVolume grows a volume of the test driver, which can't resize: there is nothing in it that could be lost.
func replaceVolume(pool *libvirt.StoragePool, vol *libvirt.StorageVol, spec *hypervisor.VolumeSpec) error {
	text, err := definition.Volume(spec)
	if err != nil {
		return err
	}

	if err := vol.Delete(0); err != nil {
		return err
	}

	larger, err := pool.StorageVolCreateXML(text, 0)
	if err != nil {
		return err
	}

	freeVolume(larger)

	return nil
}

// RemoveVolume implements hypervisor.Driver.
func (d *driver) RemoveVolume(ctx context.Context, name string) error {
	err := do(ctx, d, request{doing: "removing volume", subject: name, lane: d.writes, key: poolKey}, func(c *libvirt.Connect) error {
		if err := checkVolumeName(name); err != nil {
			return err
		}

		pool, err := c.LookupStoragePoolByUUIDString(hypervisor.PoolUUID(d.gateway))
		if err != nil {
			return err
		}
		defer freePool(pool)

		if err := activate(pool); err != nil {
			return err
		}

		vol, _, err := volume(pool, name)
		if err == nil {
			defer freeVolume(vol)

			err = vol.Delete(0)
		}

		// A copy that was interrupted has left its mark.
		if err == nil || isCode(err, libvirt.ERR_NO_STORAGE_VOL) {
			err = errors.Join(err, removeVolume(pool, name+partSuffix))
		}

		return err
	})
	if errors.Is(err, hypervisor.ErrNotFound) {
		return nil
	}

	return err
}
