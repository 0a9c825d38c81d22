package contract

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// volumeSpec returns a volume that is not there yet, and is removed when the test ends.
func (f *fixture) volumeSpec() hypervisor.VolumeSpec {
	f.Helper()

	name := fmt.Sprintf("contract-%d.root.qcow2", sequence.Add(1))
	f.Cleanup(func() {
		d := f.h.Open(f.T)
		defer func() { require.NoError(f, d.Close()) }()

		require.NoError(f, d.RemoveVolume(f.ctx(), name))
	})

	return hypervisor.VolumeSpec{Name: name, Size: 64 * resources.MiB}
}

// volume makes a volume, and requires that it was there, or was not.
func (f *fixture) volume(spec hypervisor.VolumeSpec, wantCreated bool) string {
	f.Helper()

	path, created, err := f.driver.EnsureVolume(f.ctx(), spec)
	require.NoError(f, err)
	require.Equal(f, wantCreated, created)
	require.NotEmpty(f, path)

	return path
}

func testVolumes(t *testing.T, h *Harness) {
	need(t, h.Capabilities.Volumes, "volumes")

	t.Run("are made once, and removed once", func(t *testing.T) {
		f := begin(t, h)
		spec := f.volumeSpec()

		path := f.volume(spec, true)
		require.Equal(t, path, f.volume(spec, false))

		require.NoError(t, f.driver.RemoveVolume(f.ctx(), spec.Name))
		require.NoError(t, f.driver.RemoveVolume(f.ctx(), spec.Name))
		require.Equal(t, path, f.volume(spec, true))
	})

	t.Run("grow and never shrink", func(t *testing.T) {
		f := begin(t, h)
		spec := f.volumeSpec()
		path := f.volume(spec, true)

		for _, size := range []resources.Size{128 * resources.MiB, 128 * resources.MiB, 32 * resources.MiB} {
			spec.Size = size
			require.Equal(t, path, f.volume(spec, false))
		}
	})

	t.Run("that held data are never made anew", func(t *testing.T) {
		f := begin(t, h)
		spec := f.volumeSpec()
		spec.MustExist = true

		_, _, err := f.driver.EnsureVolume(f.ctx(), spec)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)

		spec.MustExist = false
		path := f.volume(spec, true)

		spec.MustExist = true
		require.Equal(t, path, f.volume(spec, false))
	})

	t.Run("of a content have that, and are made anew for another", func(t *testing.T) {
		need(t, h.Capabilities.Images, "content of volumes")

		f := begin(t, h)
		spec := f.volumeSpec()
		spec.Name, spec.Size = fmt.Sprintf("contract-%d.seed.iso", sequence.Add(1)), 0
		f.Cleanup(func() { require.NoError(t, f.driver.RemoveVolume(f.ctx(), spec.Name)) })

		for _, content := range []string{"first content", "a longer second content"} {
			spec.Content = []byte(content)
			path := f.volume(spec, true)
			require.Equal(t, path, f.volume(spec, false))
		}
	})
}

func testSeeds(t *testing.T, h *Harness) {
	need(t, h.Capabilities.Images, "content of volumes")

	f := begin(t, h)
	seed := func(content string) hypervisor.DomainDisk {
		spec := hypervisor.VolumeSpec{Name: hypervisor.SeedName(fmt.Sprintf("contract-%d", sequence.Add(1)), "0123"), Content: []byte(content)}
		f.Cleanup(func() { require.NoError(f, f.driver.RemoveVolume(f.ctx(), spec.Name)) })

		return hypervisor.DomainDisk{Name: hypervisor.SeedDisk, Path: f.volume(spec, true), Format: "iso", ReadOnly: true, CDROM: true}
	}

	one, two := seed("one"), seed("two")
	spec := f.spec()
	spec.Disks = append(spec.Disks, one)
	f.define(spec)

	result, err := f.driver.DefineDomain(f.ctx(), spec)
	require.NoError(t, err)
	require.Empty(t, result.Changed, "it is defined as it was declared")
	f.start(spec.UUID)
	require.Empty(t, f.domain(spec.UUID).RestartRequired)

	before := spec.Disks
	spec.Disks = []hypervisor.DomainDisk{two}
	result, err = f.driver.DefineDomain(f.ctx(), spec)
	require.NoError(t, err)
	require.Equal(t, []string{hypervisor.FieldCloudInit}, result.Changed)
	require.Equal(t, []string{hypervisor.FieldCloudInit}, result.RestartRequired)
	require.Equal(t, []string{hypervisor.FieldCloudInit}, f.domain(spec.UUID).RestartRequired)

	spec.Disks = before
	result, err = f.driver.DefineDomain(f.ctx(), spec)
	require.NoError(t, err)
	require.Empty(t, result.RestartRequired)
}
