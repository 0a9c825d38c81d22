package contract

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// foreign makes a domain without a mark, and returns its UUID.
func (f *fixture) foreign(name string) string {
	f.Helper()
	need(f.T, f.h.Behind.Define != nil && f.h.Behind.Undefine != nil && f.h.Behind.Destroy != nil, "foreign domains")

	id := uuid.NewString()
	f.h.Behind.Define(f.T, name, id)
	f.Cleanup(func() {
		d := f.h.Open(f.T)
		defer func() { require.NoError(f, d.Close()) }()

		if _, err := d.Domain(f.ctx(), id); err == nil {
			f.h.Behind.Destroy(f.T, id)
			f.h.Behind.Undefine(f.T, id)
		}
	})

	return id
}

func testForeign(t *testing.T, h *Harness) {
	t.Run("domains are listed without a mark, and refused untouched", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		id := f.foreign(spec.Name)
		before := f.domain(id)

		require.Empty(t, before.Gateway)
		require.Empty(t, before.VM)

		all, err := f.driver.Domains(f.ctx())
		require.NoError(t, err)
		require.Contains(t, all, before)

		sameUUID := spec
		sameUUID.UUID = id

		for call, err := range map[string]error{
			"StartDomain":              f.driver.StartDomain(f.ctx(), id, false),
			"UndefineDomain":           f.driver.UndefineDomain(f.ctx(), id),
			"DefineDomain by its name": f.defineError(spec),
			"DefineDomain by its UUID": f.defineError(sameUUID),
		} {
			require.ErrorIs(t, err, hypervisor.ErrForeign, call)
		}

		require.Equal(t, before, f.domain(id))
	})

	testForeignRunning(t, h)
	testAdopt(t, h)
	testInspect(t, h)
}

func testForeignRunning(t *testing.T, h *Harness) {
	t.Run("running domains are refused untouched", func(t *testing.T) {
		f := begin(t, h)
		need(t, h.Behind.Start != nil, "starting behind the back")

		id := f.foreign(f.spec().Name)
		h.Behind.Start(t, id)

		before := f.domain(id)
		require.Equal(t, resources.StateRunning, before.State)

		calls := map[string]error{
			"RequestShutdown": f.driver.RequestShutdown(f.ctx(), id),
			"ForceOff":        f.driver.ForceOff(f.ctx(), id),
		}

		if h.Capabilities.Pause {
			calls["Pause"] = f.driver.Pause(f.ctx(), id)
			calls["Resume"] = f.driver.Resume(f.ctx(), id)
		}

		for call, err := range calls {
			require.ErrorIs(t, err, hypervisor.ErrForeign, call)
		}

		require.Equal(t, before, f.domain(id))
	})
}

func testAdopt(t *testing.T, h *Harness) {
	t.Run("domains are taken over only with adopt (V24)", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		spec.UUID = f.foreign(spec.Name)

		require.ErrorIs(t, f.defineError(spec), hypervisor.ErrForeign)

		spec.Adopt = true

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.False(t, result.Created)

		seen := f.domain(spec.UUID)
		require.Equal(t, h.Gateway, seen.Gateway)
		require.Equal(t, spec.VM, seen.VM)

		result, err = f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Empty(t, result.Changed, "an adopted domain converges at once")
	})
}

func testInspect(t *testing.T, h *Harness) {
	t.Run("are inspected untouched", func(t *testing.T) {
		f := begin(t, h)
		id := f.foreign(f.spec().Name)
		before := f.domain(id)

		seen, err := f.driver.Inspect(f.ctx(), id)
		require.NoError(t, err)
		require.Equal(t, before.Name, seen.Name)
		require.Equal(t, before.Spec.Memory, seen.Spec.Memory)
		require.Empty(t, seen.Gateway)
		require.Equal(t, before, f.domain(id))

		_, err = f.driver.Inspect(f.ctx(), hypervisor.DomainUUID(h.Gateway, "nobody"))
		require.ErrorIs(t, err, hypervisor.ErrNotFound)
	})

	t.Run("with the mark of another gateway are taken over only from the one that is named", func(t *testing.T) {
		need(t, h.OpenAs != nil, "another id")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		// What was made by this gateway is another's for a driver of another id.
		other := h.OpenAs(t, "another")
		t.Cleanup(func() { require.NoError(t, other.Close()) })

		define := func(from string) error {
			again := spec
			again.Adopt, again.AdoptFrom = true, from
			_, err := other.DefineDomain(f.ctx(), again)

			return err
		}

		require.ErrorIs(t, define(""), hypervisor.ErrForeign)
		require.ErrorIs(t, define("somebody"), hypervisor.ErrForeign)
		require.Equal(t, h.Gateway, f.domain(spec.UUID).Gateway)

		require.NoError(t, define(h.Gateway))
		require.Equal(t, "another", f.domain(spec.UUID).Gateway)
		require.ErrorIs(t, f.defineError(spec), hypervisor.ErrForeign)

		spec.AdoptFrom = "another" // so that it can be removed
		require.NoError(t, f.defineError(spec))
	})
}

// defineError returns the error of a definition.
func (f *fixture) defineError(spec hypervisor.DomainSpec) error {
	_, err := f.driver.DefineDomain(f.ctx(), spec)

	return err
}

func testBehind(t *testing.T, h *Harness) {
	t.Run("a domain that is destroyed is seen as stopped", func(t *testing.T) {
		need(t, h.Behind.Destroy != nil, "destroying behind the back")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)
		h.Behind.Destroy(t, spec.UUID)

		require.Equal(t, resources.StateStopped, f.domain(spec.UUID).State)
		f.start(spec.UUID)
	})

	t.Run("a domain that is undefined is gone, and is made again", func(t *testing.T) {
		need(t, h.Behind.Undefine != nil, "undefining behind the back")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		h.Behind.Undefine(t, spec.UUID)

		_, err := f.driver.Domain(f.ctx(), spec.UUID)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)
		f.define(spec)
	})

	t.Run("memory that is changed is set right", func(t *testing.T) {
		need(t, h.Behind.SetMemory != nil, "changing memory behind the back")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		h.Behind.SetMemory(t, spec.UUID, 96*resources.MiB)
		require.Equal(t, 96*resources.MiB, f.domain(spec.UUID).Spec.Memory)

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Contains(t, result.Changed, hypervisor.FieldMemory)
		require.Equal(t, spec.Memory, f.domain(spec.UUID).Spec.Memory)
	})
}
