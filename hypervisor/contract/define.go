package contract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

func testInfo(t *testing.T, h *Harness) {
	f := begin(t, h)

	info, err := f.driver.Info(f.ctx())
	require.NoError(t, err)
	require.NotEmpty(t, info.Driver)
	require.NotEmpty(t, info.Arch)
	require.Positive(t, info.Capacity.CPUs)
	require.Positive(t, info.Capacity.Memory)
}

func testNotFound(t *testing.T, h *Harness) {
	f := begin(t, h)
	d, ctx := f.driver, f.ctx()
	uuid := hypervisor.DomainUUID(h.Gateway, "never-made")

	_, domain := d.Domain(ctx, uuid)
	_, byName := d.DomainByName(ctx, "never-made")
	_, addresses := d.Addresses(ctx, uuid)

	for call, err := range map[string]error{
		"Domain":          domain,
		"DomainByName":    byName,
		"Addresses":       addresses,
		"StartDomain":     d.StartDomain(ctx, uuid, false),
		"RequestShutdown": d.RequestShutdown(ctx, uuid),
		"ForceOff":        d.ForceOff(ctx, uuid),
		"Pause":           d.Pause(ctx, uuid),
		"Resume":          d.Resume(ctx, uuid),
	} {
		require.ErrorIs(t, err, hypervisor.ErrNotFound, call)
		require.NotErrorIs(t, err, hypervisor.ErrUnreachable, call)
	}

	t.Run("is success where something is removed", func(t *testing.T) {
		require.NoError(t, d.UndefineDomain(ctx, uuid))

		if h.Capabilities.Networks {
			require.NoError(t, d.RemoveNetwork(ctx, "never-made"))
		}

		if h.Capabilities.Volumes {
			require.NoError(t, d.RemoveVolume(ctx, "never-made.qcow2"))
		}
	})
}

func testDefine(t *testing.T, h *Harness) {
	t.Run("makes a domain that is off, with our mark", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		byUUID := f.domain(spec.UUID)
		require.Equal(t, resources.StateStopped, byUUID.State)
		require.Equal(t, spec.Name, byUUID.Name)
		require.Equal(t, spec.UUID, byUUID.UUID)
		require.Equal(t, h.Gateway, byUUID.Gateway)
		require.Equal(t, spec.VM, byUUID.VM)
		require.Equal(t, int64(1), byUUID.Revision)
		require.Empty(t, byUUID.RestartRequired)
		require.False(t, byUUID.Autostart)

		byName, err := f.driver.DomainByName(f.ctx(), spec.Name)
		require.NoError(t, err)
		require.Equal(t, byUUID, byName)

		all, err := f.driver.Domains(f.ctx())
		require.NoError(t, err)
		byUUID.Definition = nil // is too much for a list
		require.Contains(t, all, byUUID)
	})

	t.Run("observes every owned field as it was declared", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		spec.CPUs, spec.MaxCPUs = 2, 4
		spec.Memory, spec.MaxMemory = 64*resources.MiB, 128*resources.MiB
		spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:00:00:01", Bridge: "br-contract"}}
		spec.Disks = []hypervisor.DomainDisk{{Name: "root", Path: "/nowhere/contract.qcow2", Format: "qcow2"}, {Name: "seed", Path: "/nowhere/contract.iso", Format: "iso", ReadOnly: true, CDROM: true}}
		spec.GuestAgent = true
		f.define(spec)

		want, got := spec.Normalised(), f.domain(spec.UUID).Spec
		require.Empty(t, got.Differences(&want), "declared %+v, observed %+v", want, got)
	})

	testDefineAgain(t, h)
	testDescriptions(t, h)
}

func testDefineAgain(t *testing.T, h *Harness) {
	t.Run("changes nothing when nothing differs (V62)", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		spec.Memory++ // is rounded up to a whole KiB, and no difference afterwards
		f.define(spec)

		before := f.domain(spec.UUID)

		for range 3 {
			result, err := f.driver.DefineDomain(f.ctx(), spec)
			require.NoError(t, err)
			require.False(t, result.Created)
			require.Empty(t, result.Changed)
			require.Empty(t, result.RestartRequired)
		}

		f.start(spec.UUID)

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Equal(t, hypervisor.DefineResult{}, result)

		require.Equal(t, before.Spec, f.domain(spec.UUID).Spec)
	})

	t.Run("changes what differs, and says so", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		spec.Memory, spec.CPUs, spec.MaxCPUs, spec.Revision = 128*resources.MiB, 2, 2, 2
		spec.MaxMemory = spec.Memory

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Subset(t, result.Changed, []string{hypervisor.FieldMemory, hypervisor.FieldCPUs})
		require.Empty(t, result.RestartRequired, "a domain that is off needs no restart")

		seen := f.domain(spec.UUID)
		require.Equal(t, spec.Memory, seen.Spec.Memory)
		require.Equal(t, 2, seen.Spec.CPUs)
		require.Equal(t, int64(2), seen.Revision)
		require.Equal(t, resources.StateStopped, seen.State)
	})

	testRevision(t, h)
	testDefineAnew(t, h)
}

func testDefineAnew(t *testing.T, h *Harness) {
	t.Run("begins with what was there, where somebody took the definition away", func(t *testing.T) {
		need(t, h.Behind.AddDisk != nil && h.Behind.Undefine != nil, "disks of others")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		h.Behind.AddDisk(t, spec.UUID, "/nowhere/theirs.img")

		before := f.domain(spec.UUID)
		require.NotEmpty(t, before.Definition)
		require.Len(t, before.Spec.Disks, 1)

		h.Behind.Undefine(t, spec.UUID)

		spec.Last, spec.CPUs, spec.MaxCPUs, spec.Revision = before.Definition, 2, 2, 2
		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.True(t, result.Created)
		require.Empty(t, result.Anew)

		after := f.domain(spec.UUID)
		require.Equal(t, before.Spec.Disks, after.Spec.Disks)
		require.Equal(t, 2, after.Spec.CPUs, "what is declared is as it is declared")
		require.Equal(t, int64(2), after.Revision)

		h.Behind.Undefine(t, spec.UUID)

		// With the same declaration it is the same to the letter: machine, addresses, and whatever there is.
		spec.CPUs, spec.MaxCPUs, spec.Revision = before.Spec.CPUs, before.Spec.MaxCPUs, before.Revision
		_, err = f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Equal(t, before.Definition, f.domain(spec.UUID).Definition)
	})

	t.Run("says so where what was there can't be used", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		spec.Last = []byte("nonsense")

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.True(t, result.Created)
		require.NotEmpty(t, result.Anew)
	})
}

func testRevision(t *testing.T, h *Harness) {
	t.Run("raises the revision alone without a restart", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		spec.Revision = 7

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Empty(t, result.RestartRequired)
		require.Equal(t, int64(7), f.domain(spec.UUID).Revision)
		require.Equal(t, resources.StateRunning, f.domain(spec.UUID).State)
	})
}

func testDescriptions(t *testing.T, h *Harness) {
	for name, text := range map[string]string{
		"closes an element":          `</name><x/>`,
		"closes CDATA":               `]]><disk type='file'><source file='/etc/shadow'/></disk><![CDATA[`,
		"has quotes and an entity":   `"double" 'single' &amp; & &#x41;`,
		"has letters of all scripts": "Grüße, 世界, שלום, 🖥",
		"has several lines":          "first\nsecond\tindented",
		"looks like our own mark":    `<gateway:vm xmlns:gateway="` + hypervisor.MetadataNamespace + `">other</gateway:vm>`,
		"is a comment":               `<!-- -->--><?xml version="1.0"?>`,
		"is empty":                   ``,
	} {
		t.Run("keeps a description that "+name+" (V8)", func(t *testing.T) {
			f := begin(t, h)
			spec := f.spec()
			spec.Description = text
			f.define(spec)

			seen := f.domain(spec.UUID)
			require.Equal(t, text, seen.Spec.Description)
			require.Equal(t, h.Gateway, seen.Gateway)
			require.Equal(t, spec.VM, seen.VM)
			require.Equal(t, spec.Name, seen.Name)
			require.Equal(t, spec.Normalised().Disks, seen.Spec.Disks, "no element was added")

			result, err := f.driver.DefineDomain(f.ctx(), spec)
			require.NoError(t, err)
			require.Empty(t, result.Changed)
		})
	}
}
