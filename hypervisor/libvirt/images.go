//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// partSuffix is added to the name of a file for that of the volume that stands beside it while it is not complete: libvirt
// can't rename a volume, so that none can be made under a temporary name. It is made first, and removed last.
const partSuffix = ".part"

// Images implements hypervisor.Driver.
func (d *driver) Images(ctx context.Context) ([]hypervisor.ImageFile, error) {
	return call(ctx, d, request{doing: "listing the images", lane: d.reads}, func(c *libvirt.Connect) (files []hypervisor.ImageFile, err error) {
		pool, err := d.existingPool(c)
		if err != nil || pool == nil {
			return nil, err
		}
		defer freePool(pool)

		// Files that vanished behind the pool's back are still listed. A pool that is busy is looked at as it is.
		if err := refresh(pool); err != nil && !errors.Is(classify(err), hypervisor.ErrBusy) {
			return nil, err
		}

		names, err := volumeNames(pool)
		if err != nil {
			return nil, err
		}

		for name := range names {
			if _, _, _, ok := hypervisor.ParseImageName(name); !ok {
				continue
			}

			file, err := imageFile(pool, name)
			if errors.Is(classify(err), hypervisor.ErrNotFound) {
				continue // it was removed since it was listed
			}

			if err != nil {
				return nil, err
			}

			file.Complete = !names[name+partSuffix]
			files = append(files, file)
		}

		return files, nil
	})
}

// existingPool returns our pool, active; nil where there is none.
func (d *driver) existingPool(c *libvirt.Connect) (*libvirt.StoragePool, error) {
	pool, err := c.LookupStoragePoolByUUIDString(hypervisor.PoolUUID(d.gateway))
	if isCode(err, libvirt.ERR_NO_STORAGE_POOL) {
		return nil, nil //nolint:nilnil // no pool is a state
	}

	if err != nil {
		return nil, err
	}

	if err := activate(pool); err != nil {
		freePool(pool)

		return nil, err
	}

	return pool, nil
}

// volumeNames returns the names of all volumes of a pool.
func volumeNames(pool *libvirt.StoragePool) (map[string]bool, error) {
	names, err := pool.ListStorageVolumes()
	if err != nil {
		return nil, err
	}

	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}

	return all, nil
}

func imageFile(pool *libvirt.StoragePool, name string) (hypervisor.ImageFile, error) {
	vol, state, err := lookupVolume(pool, name)
	if err != nil {
		return hypervisor.ImageFile{}, err
	}

	freeVolume(vol)

	return hypervisor.ImageFile{Name: name, Path: state.Path, Bytes: lengthOf(&state), VirtualSize: state.Capacity, Complete: true}, nil
}

// lengthOf is the length of a volume's file.
func lengthOf(state *definition.VolumeState) resources.Size {
	if state.Physical > 0 {
		return state.Physical
	}

	return state.Capacity
}

// StoreImage implements hypervisor.Driver. The pool can be used by others while the content comes.
func (d *driver) StoreImage(ctx context.Context, spec hypervisor.ImageSpec, content io.Reader) (hypervisor.ImageFile, error) {
	r := request{doing: "storing image", subject: spec.Name, lane: d.transfers, key: "image/" + spec.Name}

	return call(ctx, d, r, func(c *libvirt.Connect) (hypervisor.ImageFile, error) {
		var none hypervisor.ImageFile

		if _, _, _, ok := hypervisor.ParseImageName(spec.Name); !ok {
			return none, fmt.Errorf("%w: %q is no name of an image", hypervisor.ErrInvalid, spec.Name)
		}

		pool, err := d.pool(c)
		if err != nil {
			return none, err
		}
		defer freePool(pool)

		var vol *libvirt.StorageVol

		err = d.exclusively(ctx, func() (err error) {
			vol, err = beginFile(pool, spec.Name, spec.Size)

			return err
		})
		if err != nil {
			return none, err
		}

		if vol != nil {
			sent, err := upload(c, vol, content)
			freeVolume(vol)

			if err = d.endFile(ctx, pool, spec.Name, resources.Size(sent), err); err != nil {
				return none, err
			}
		}

		return imageFile(pool, spec.Name)
	})
}

// cleanupTime bounds what is done after a call has failed, when its own time may be over.
const cleanupTime = hypervisor.StepTimeout

// exclusively runs fn while nobody else changes volumes.
func (d *driver) exclusively(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()

	h, err := d.locks.take(ctx, poolKey)
	if err != nil {
		return err
	}
	defer d.locks.release(h)

	return fn()
}

// beginFile makes an empty file and the mark of one that is not complete. It returns nil where the file is there as a whole;
// what an interrupted call has left is removed.
func beginFile(pool *libvirt.StoragePool, name string, size resources.Size) (*libvirt.StorageVol, error) {
	incomplete, err := exists(pool, name+partSuffix)
	if err != nil {
		return nil, err
	}

	there, err := exists(pool, name)
	if err != nil || there && !incomplete {
		return nil, err
	}

	if there {
		if err := removeVolume(pool, name); err != nil {
			return nil, err
		}
	}

	if err := hasRoom(pool, size); err != nil {
		return nil, err
	}

	if !incomplete {
		mark, err := emptyFile(pool, name+partSuffix)
		if err != nil {
			return nil, err
		}

		freeVolume(mark)
	}

	return emptyFile(pool, name)
}

// hasRoom refuses a file that does not fit, before the disks of guests have nowhere to grow.
func hasRoom(pool *libvirt.StoragePool, size resources.Size) error {
	info, err := pool.GetInfo()
	if err != nil {
		return err
	}

	if size > 0 && uint64(size) > info.Available {
		return fmt.Errorf("%w: it has %s, and the pool has %s left", hypervisor.ErrInvalid, size, resources.Size(info.Available))
	}

	return nil
}

// endFile takes the mark off a file that is complete, and removes one that failed.
func (d *driver) endFile(ctx context.Context, pool *libvirt.StoragePool, name string, sent resources.Size, failed error) error {
	return d.exclusively(ctx, func() error {
		if failed == nil {
			failed = arrived(pool, name, sent)
		}

		if failed == nil {
			return removeVolume(pool, name+partSuffix)
		}

		// What can't be removed stays marked, and is made anew by the next one.
		if err := errors.Join(removeVolume(pool, name), removeVolume(pool, name+partSuffix)); err != nil {
			return fmt.Errorf("%w (what there is of it stays: %v)", failed, classify(err))
		}

		return failed
	})
}

// arrived checks that the host has all that was sent, and lets the pool see what it is.
func arrived(pool *libvirt.StoragePool, name string, sent resources.Size) error {
	// A busy pool sees it later.
	if err := refresh(pool); err != nil && !errors.Is(classify(err), hypervisor.ErrBusy) {
		return err
	}

	file, err := imageFile(pool, name)
	if err == nil && file.Bytes != sent {
		err = fmt.Errorf("%d bytes were sent, and the host has %d", sent, file.Bytes)
	}

	return err
}

// emptyFile makes a file with nothing in it.
func emptyFile(pool *libvirt.StoragePool, name string) (*libvirt.StorageVol, error) {
	text, err := definition.RawVolume(name)
	if err != nil {
		return nil, err
	}

	return pool.StorageVolCreateXML(text, 0)
}

func exists(pool *libvirt.StoragePool, name string) (bool, error) {
	vol, _, err := volume(pool, name)
	if errors.Is(classify(err), hypervisor.ErrNotFound) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	freeVolume(vol)

	return true, nil
}

// removeVolume removes a volume. One that does not exist is success.
func removeVolume(pool *libvirt.StoragePool, name string) error {
	vol, _, err := lookupVolume(pool, name)
	if err == nil {
		defer freeVolume(vol)

		err = vol.Delete(0)
	}

	if errors.Is(classify(err), hypervisor.ErrNotFound) {
		return nil
	}

	return err
}

// RemoveImage implements hypervisor.Driver.
func (d *driver) RemoveImage(ctx context.Context, name string) error {
	// While it is being stored it is busy.
	file, err := d.locks.take(ctx, "image/"+name)
	if err != nil {
		return fmt.Errorf("error removing image %q: %w", name, err)
	}
	defer d.locks.release(file)

	return do(ctx, d, request{doing: "removing image", subject: name, lane: d.writes, key: poolKey}, func(c *libvirt.Connect) error {
		if _, _, _, ok := hypervisor.ParseImageName(name); !ok {
			return fmt.Errorf("%w: %q is no name of an image", hypervisor.ErrInvalid, name)
		}

		pool, err := d.existingPool(c)
		if err != nil || pool == nil {
			return err
		}
		defer freePool(pool)

		users, err := startFrom(pool, name)
		if err == nil && len(users) > 0 {
			err = fmt.Errorf("%w: %s start from it", hypervisor.ErrInUse, strings.Join(users, ", "))
		}

		if err != nil {
			return err
		}

		// The mark goes last: until then it is one that is not complete.
		return errors.Join(removeVolume(pool, name), removeVolume(pool, name+partSuffix))
	})
}

// startFrom returns the names of the volumes that start from an image.
func startFrom(pool *libvirt.StoragePool, image string) (users []string, err error) {
	if err := refresh(pool); err != nil {
		return nil, err
	}

	vol, state, err := lookupVolume(pool, image)
	if isCode(err, libvirt.ERR_NO_STORAGE_VOL) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	freeVolume(vol)

	names, err := volumeNames(pool)
	if err != nil {
		return nil, err
	}

	for name := range names {
		vol, other, err := lookupVolume(pool, name)
		if isCode(err, libvirt.ERR_NO_STORAGE_VOL) {
			continue
		}

		if err != nil {
			return nil, err
		}

		freeVolume(vol)

		if other.Backing == state.Path {
			users = append(users, name)
		}
	}

	return users, nil
}
