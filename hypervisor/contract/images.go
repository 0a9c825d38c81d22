package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// imageContent is a raw image: more than one piece of a stream, and no whole number of them.
var imageContent = bytes.Repeat([]byte("an image of the contract\n"), 20*1024) // 500 KiB

// imageSpec returns an image that is not there yet, and is removed when the test ends.
func (f *fixture) imageSpec() hypervisor.ImageSpec {
	f.Helper()

	name := hypervisor.ImageName(fmt.Sprintf("contract-%d", sequence.Add(1)), strings.Repeat("ab", 32), hypervisor.FormatRaw)
	f.Cleanup(func() {
		d := f.h.Open(f.T)
		defer func() { require.NoError(f, d.Close()) }()

		require.NoError(f, d.RemoveImage(f.ctx(), name))
	})

	size := resources.Size(len(imageContent))

	return hypervisor.ImageSpec{Name: name, Size: size, VirtualSize: size}
}

// image returns what the host has of an image.
func (f *fixture) image(name string) (hypervisor.ImageFile, bool) {
	f.Helper()

	all, err := f.driver.Images(f.ctx())
	require.NoError(f, err)

	at := slices.IndexFunc(all, func(i hypervisor.ImageFile) bool { return i.Name == name })
	if at < 0 {
		return hypervisor.ImageFile{}, false
	}

	return all[at], true
}

// store stores the image of the contract.
func (f *fixture) store(spec hypervisor.ImageSpec) hypervisor.ImageFile {
	f.Helper()

	file, err := f.driver.StoreImage(f.ctx(), spec, bytes.NewReader(imageContent))
	require.NoError(f, err)

	return file
}

func testImages(t *testing.T, h *Harness) {
	need(t, h.Capabilities.Images, "images")

	t.Run("are stored as a whole, once", func(t *testing.T) {
		f := begin(t, h)
		spec := f.imageSpec()
		file := f.store(spec)

		seen, ok := f.image(spec.Name)
		require.True(t, ok)
		require.Equal(t, file, seen)
		require.True(t, seen.Complete)
		require.NotEmpty(t, seen.Path)
		require.EqualValues(t, len(imageContent), seen.Bytes)
		require.GreaterOrEqual(t, seen.VirtualSize, spec.VirtualSize)

		again, err := f.driver.StoreImage(f.ctx(), spec, iotest.ErrReader(errors.New("it was read again")))
		require.NoError(t, err)
		require.Equal(t, file, again)

		require.NoError(t, f.driver.RemoveImage(f.ctx(), spec.Name))
		require.NoError(t, f.driver.RemoveImage(f.ctx(), spec.Name))
		_, ok = f.image(spec.Name)
		require.False(t, ok)
	})

	t.Run("whose content fails leave nothing", func(t *testing.T) {
		f := begin(t, h)
		spec := f.imageSpec()
		wrong := errors.New("the checksum is another")
		half := io.MultiReader(bytes.NewReader(imageContent[:len(imageContent)/2]), iotest.ErrReader(wrong))

		_, err := f.driver.StoreImage(f.ctx(), spec, half)
		require.ErrorIs(t, err, wrong)

		_, ok := f.image(spec.Name)
		require.False(t, ok)

		require.True(t, f.store(spec).Complete)
	})

	t.Run("are not complete before they are, and are made anew after that", func(t *testing.T) {
		f := begin(t, h)
		spec := f.imageSpec()
		other := &fixture{T: t, h: h, driver: h.Open(t)}

		// The connection ends in the middle of the content, as when the gateway is killed.
		_, err := other.driver.StoreImage(f.ctx(), spec, io.MultiReader(bytes.NewReader(imageContent[:1000]), readerFunc(func([]byte) (int, error) {
			if seen, ok := f.image(spec.Name); ok {
				require.False(t, seen.Complete)
			}

			require.NoError(t, other.driver.Close())

			return 0, errors.New("killed")
		})))
		require.Error(t, err)

		f.eventually(func() bool {
			file, err := f.driver.StoreImage(f.ctx(), spec, bytes.NewReader(imageContent))

			return err == nil && file.Complete && int(file.Bytes) == len(imageContent)
		}, "the image is stored")
	})

	t.Run("are what volumes start from, and stay while they do", func(t *testing.T) {
		f := begin(t, h)
		file := f.store(f.imageSpec())
		volume := f.volumeSpec()
		volume.Backing, volume.BackingFormat = file.Path, hypervisor.FormatRaw
		f.volume(volume, true)

		require.ErrorIs(t, f.driver.RemoveImage(f.ctx(), file.Name), hypervisor.ErrInUse)

		require.NoError(t, f.driver.RemoveVolume(f.ctx(), volume.Name))
		require.NoError(t, f.driver.RemoveImage(f.ctx(), file.Name))
	})

	t.Run("are copied where a volume is to be a copy", func(t *testing.T) {
		f := begin(t, h)
		file := f.store(f.imageSpec())
		volume := f.volumeSpec()
		volume.Backing, volume.BackingFormat, volume.Copy = file.Path, hypervisor.FormatRaw, true

		f.eventually(func() bool {
			_, _, err := f.driver.EnsureVolume(f.ctx(), volume)
			if !errors.Is(err, hypervisor.ErrBusy) {
				require.NoError(t, err)
			}

			return err == nil
		}, "the copy is there")
		f.volume(volume, false)

		require.NoError(t, f.driver.RemoveImage(f.ctx(), file.Name), "nothing starts from it")
	})

	t.Run("are never cut: a volume smaller than its image is refused", func(t *testing.T) {
		f := begin(t, h)
		file := f.store(f.imageSpec())
		volume := f.volumeSpec()
		volume.Backing, volume.BackingFormat, volume.Size = file.Path, hypervisor.FormatRaw, 64*resources.KiB

		_, _, err := f.driver.EnsureVolume(f.ctx(), volume)
		require.ErrorIs(t, err, hypervisor.ErrInvalid)
	})

	t.Run("of others are read where they are", func(t *testing.T) { testFiles(t, h) })
}

func testFiles(t *testing.T, h *Harness) {
	t.Helper()
	need(t, h.Behind.AddFile != nil, "putting a file on the host")

	f := begin(t, h)
	path := h.Behind.AddFile(t, imageContent)

	for range 2 {
		var content bytes.Buffer

		file, err := f.driver.ReadFile(f.ctx(), path, &content)
		require.NoError(t, err)
		require.EqualValues(t, len(imageContent), file.Bytes)
		require.True(t, bytes.Equal(imageContent, content.Bytes()))

		file, err = f.driver.ReadFile(f.ctx(), path, nil)
		require.NoError(t, err)
		require.EqualValues(t, len(imageContent), file.Bytes)
	}

	_, err := f.driver.ReadFile(f.ctx(), path+".missing", nil)
	require.ErrorIs(t, err, hypervisor.ErrNotFound)

	full := errors.New("no more")
	_, err = f.driver.ReadFile(f.ctx(), path, writerFunc(func([]byte) (int, error) { return 0, full }))
	require.ErrorIs(t, err, full)
}

type (
	readerFunc func(p []byte) (int, error)
	writerFunc func(p []byte) (int, error)
)

func (f readerFunc) Read(p []byte) (int, error)  { return f(p) }
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
