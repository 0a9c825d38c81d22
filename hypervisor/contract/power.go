package contract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

func testPower(t *testing.T, h *Harness) {
	t.Run("starts once, however often it is asked", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		for range 3 {
			f.start(spec.UUID)
		}
	})

	t.Run("forces off, and again", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID), "off already")
		f.start(spec.UUID)
		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))

		seen := f.domain(spec.UUID)
		require.Equal(t, resources.StateStopped, seen.State)
		require.Equal(t, "destroyed", seen.Reason)
		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))

		f.start(spec.UUID)
	})

	testPause(t, h)
	testOff(t, h)
}

func testPause(t *testing.T, h *Harness) {
	t.Run("starts paused, pauses and resumes", func(t *testing.T) {
		need(t, h.Capabilities.Pause, "pause")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		require.Error(t, f.driver.Pause(f.ctx(), spec.UUID), "a domain that is off can't be paused")
		require.NoError(t, f.driver.StartDomain(f.ctx(), spec.UUID, true))
		require.Equal(t, resources.StatePaused, f.domain(spec.UUID).State)

		for _, step := range []struct {
			do   func() error
			want string
		}{
			{func() error { return f.driver.Pause(f.ctx(), spec.UUID) }, resources.StatePaused},
			{func() error { return f.driver.Resume(f.ctx(), spec.UUID) }, resources.StateRunning},
			{func() error { return f.driver.Resume(f.ctx(), spec.UUID) }, resources.StateRunning},
			{func() error { return f.driver.Pause(f.ctx(), spec.UUID) }, resources.StatePaused},
			{func() error { return f.driver.ForceOff(f.ctx(), spec.UUID) }, resources.StateStopped},
		} {
			require.NoError(t, step.do())
			require.Equal(t, step.want, f.domain(spec.UUID).State)
		}
	})
}

func testOff(t *testing.T, h *Harness) {
	t.Run("asks the guest to shut down, and does not wait for it", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		require.NoError(t, f.driver.RequestShutdown(f.ctx(), spec.UUID), "off already")
		f.start(spec.UUID)

		if !h.Capabilities.Shutdown {
			require.NoError(t, f.driver.RequestShutdown(f.ctx(), spec.UUID))

			return
		}

		// An early press of the button is lost: it is repeated, as the controller does. One that meets a guest that is just
		// going may not get an answer from it.
		f.eventually(func() bool {
			if err := f.driver.RequestShutdown(f.ctx(), spec.UUID); err != nil {
				require.ErrorIs(t, err, hypervisor.ErrBusy)
			}

			return f.domain(spec.UUID).State == resources.StateStopped
		}, "the guest never shut down")
		require.Equal(t, "shutdown", f.domain(spec.UUID).Reason)
	})

	t.Run("undefines only what is off, and again", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		require.Error(t, f.driver.UndefineDomain(f.ctx(), spec.UUID))
		require.Equal(t, resources.StateRunning, f.domain(spec.UUID).State)

		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))
		require.NoError(t, f.driver.UndefineDomain(f.ctx(), spec.UUID))
		require.NoError(t, f.driver.UndefineDomain(f.ctx(), spec.UUID))

		_, err := f.driver.Domain(f.ctx(), spec.UUID)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)

		f.define(spec)
	})
}

// grow changes the memory of a running domain, which needs a restart.
func (f *fixture) grow(spec *hypervisor.DomainSpec) {
	f.Helper()

	spec.Memory, spec.MaxMemory = 128*resources.MiB, 128*resources.MiB

	result, err := f.driver.DefineDomain(f.ctx(), *spec)
	require.NoError(f, err)
	require.Contains(f, result.Changed, hypervisor.FieldMemory)
	require.Contains(f, result.RestartRequired, hypervisor.FieldMemory)
	require.Contains(f, f.domain(spec.UUID).RestartRequired, hypervisor.FieldMemory)
	require.Equal(f, spec.Memory, f.domain(spec.UUID).Spec.Memory, "the definition has it already")

	result, err = f.driver.DefineDomain(f.ctx(), *spec)
	require.NoError(f, err)
	require.Empty(f, result.Changed, "it was changed before")
	require.Contains(f, result.RestartRequired, hypervisor.FieldMemory, "and is still not in effect")
}

func testRestartRequired(t *testing.T, h *Harness) {
	t.Run("is said of memory, until a restart (V61)", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)
		f.grow(&spec)

		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))
		require.Empty(t, f.domain(spec.UUID).RestartRequired)
		f.start(spec.UUID)
		require.Empty(t, f.domain(spec.UUID).RestartRequired)
	})

	t.Run("is said of memory, until the change is taken back (V61)", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		before := spec
		f.grow(&spec)

		result, err := f.driver.DefineDomain(f.ctx(), before)
		require.NoError(t, err)
		require.Contains(t, result.Changed, hypervisor.FieldMemory)
		require.Empty(t, result.RestartRequired)
		require.Empty(t, f.domain(spec.UUID).RestartRequired)
	})

	t.Run("is not said of a description", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		spec.Description = "another one"

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Contains(t, result.Changed, hypervisor.FieldDescription)
		require.Empty(t, result.RestartRequired)

		seen := f.domain(spec.UUID)
		require.Equal(t, "another one", seen.Spec.Description)
		require.Empty(t, seen.RestartRequired)
		require.Equal(t, resources.StateRunning, seen.State)
	})
}
