//go:build libvirt_dlopen

package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
	"gateway/resources"
)

// ensureContent makes a small file have exactly this content. One that has another, or only a part of it, is made anew.
func ensureContent(c *libvirt.Connect, pool *libvirt.StoragePool, spec *hypervisor.VolumeSpec) (string, bool, error) {
	vol, state, err := volume(pool, spec.Name)

	switch {
	case err == nil:
		defer freeVolume(vol)

		same, err := hasContent(c, vol, &state, spec.Content)
		if err != nil || same {
			return state.Path, false, err
		}

		if err := vol.Delete(0); err != nil {
			return "", false, err
		}
	case !isCode(err, libvirt.ERR_NO_STORAGE_VOL):
		return "", false, err
	}

	made, err := emptyFile(pool, spec.Name)
	if err != nil {
		return "", false, err
	}
	defer freeVolume(made)

	if _, err := upload(c, made, bytes.NewReader(spec.Content)); err != nil {
		return "", false, err
	}

	path, err := made.GetPath()

	return path, true, err
}

func hasContent(c *libvirt.Connect, vol *libvirt.StorageVol, state *definition.VolumeState, want []byte) (bool, error) {
	if lengthOf(state) != resources.Size(len(want)) {
		return false, nil
	}

	var have bytes.Buffer

	_, err := download(c, vol, &have)

	return bytes.Equal(have.Bytes(), want), err
}

// copying is a volume that becomes a copy of an image, which takes longer than a call may.
type copying struct {
	done chan struct{}
	// Written before done is closed.
	at  string
	err error
}

func (c *copying) path() string {
	if c == nil {
		return ""
	}

	return c.at
}

// ensureCopy makes a volume a copy of its image. It returns nil where the volume is there as a whole, and ErrBusy while it is
// being copied; what it returns otherwise is the copy that was just finished. It is called by one at a time.
func (d *driver) ensureCopy(c *libvirt.Connect, pool *libvirt.StoragePool, spec *hypervisor.VolumeSpec) (*copying, error) {
	d.mu.Lock()
	running := d.copies[spec.Name]
	d.mu.Unlock()

	if running != nil {
		select {
		case <-running.done:
		default:
			return nil, fmt.Errorf("%w: it is being copied from its image", hypervisor.ErrBusy)
		}

		d.mu.Lock()
		delete(d.copies, spec.Name)
		d.mu.Unlock()

		if running.err != nil {
			return nil, running.err
		}

		return running, nil
	}

	incomplete, err := exists(pool, spec.Name+partSuffix)
	if err != nil {
		return nil, err
	}

	there, err := exists(pool, spec.Name)
	if err != nil || there && !incomplete || !there && spec.MustExist {
		return nil, err
	}

	// libvirt refuses to remove one that somebody still copies.
	if err := removeVolume(pool, spec.Name); err != nil {
		return nil, err
	}

	if !incomplete {
		mark, err := emptyFile(pool, spec.Name+partSuffix)
		if err != nil {
			return nil, err
		}

		freeVolume(mark)
	}

	return nil, d.beginCopy(c, spec)
}

// beginCopy starts the copy. It always returns an error: ErrBusy where it has begun.
func (d *driver) beginCopy(c *libvirt.Connect, spec *hypervisor.VolumeSpec) error {
	image, leave, err := d.fileVolume(c, spec.Backing)
	if err != nil {
		return err
	}

	freeVolume(image)
	defer leave()

	if err := notCut(c, spec); err != nil {
		return err
	}

	job := &copying{done: make(chan struct{})}
	wanted := *spec

	d.mu.Lock()
	if d.copies == nil {
		d.copies = map[string]*copying{}
	}

	d.copies[spec.Name] = job
	d.mu.Unlock()

	d.background.Go(func() {
		defer close(job.done)

		job.at, job.err = d.transfer(&wanted)
	})

	return fmt.Errorf("%w: it is being copied from its image", hypervisor.ErrBusy)
}

// transfer copies an image into a volume, on a connection of its own: it takes long.
func (d *driver) transfer(spec *hypervisor.VolumeSpec) (string, error) {
	c, err := d.take(context.Background(), d.transfers)
	if err != nil {
		return "", err
	}
	defer d.transfers.put(c)

	pool, err := d.pool(c)
	if err != nil {
		return "", err
	}
	defer freePool(pool)

	image, leave, err := d.fileVolume(c, spec.Backing)
	if err != nil {
		return "", err
	}
	defer leave()
	defer freeVolume(image)

	return copyVolume(pool, image, spec)
}

// copyVolume makes a volume that is a copy, and takes the mark off it.
func copyVolume(pool *libvirt.StoragePool, image *libvirt.StorageVol, spec *hypervisor.VolumeSpec) (string, error) {
	alone := *spec
	alone.Backing = ""

	if info, err := image.GetInfo(); err != nil {
		return "", err
	} else if alone.Size == 0 {
		alone.Size = resources.Size(info.Capacity)
	}

	text, err := definition.Volume(&alone)
	if err != nil {
		return "", err
	}

	vol, err := pool.StorageVolCreateXMLFrom(text, image, 0)
	if err != nil {
		return "", errors.Join(err, removeVolume(pool, spec.Name), removeVolume(pool, spec.Name+partSuffix))
	}
	defer freeVolume(vol)

	// libvirt gives a copy the size of what it was copied from.
	info, err := vol.GetInfo()
	if err == nil && info.Capacity < uint64(alone.Size) {
		err = vol.Resize(uint64(alone.Size), 0)
	}

	if err != nil {
		return "", err
	}

	if err := removeVolume(pool, spec.Name+partSuffix); err != nil {
		return "", err
	}

	return vol.GetPath()
}
