package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestGuestHasItsAddressOnlyAfterBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld()
		d := open(t, w, "sim://a?boot=2s")
		spec := specOf("web")
		spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:AB:00:01", Network: "lan"}, {MAC: "52:54:00:ab:00:02", Bridge: "br0"}}

		_, err := d.DefineDomain(t.Context(), spec)
		require.NoError(t, err)
		require.ErrorIs(t, d.StartDomain(t.Context(), spec.UUID, false), hypervisor.ErrInvalid, "its network is not there")

		_, err = d.EnsureNetwork(t.Context(), hypervisor.NetworkSpec{Name: "lan", Hosts: []hypervisor.NetworkHost{{MAC: "52:54:00:ab:00:01", Address: "10.7.0.10"}}})
		require.NoError(t, err)
		running(t, d, spec)

		for _, step := range []struct {
			wait time.Duration
			want []resources.Address
		}{
			{1999 * time.Millisecond, nil},
			{time.Millisecond, []resources.Address{{Address: "10.7.0.10", Source: "lease", Network: "lan", MAC: "52:54:00:ab:00:01"}}},
		} {
			time.Sleep(step.wait)

			state, _ := stateOf(t, w.Host("a"), spec.UUID)
			require.Equal(t, resources.StateRunning, state)

			got, err := d.Addresses(t.Context(), spec.UUID)
			require.NoError(t, err)
			require.Equal(t, step.want, got)
		}

		require.NoError(t, d.ForceOff(t.Context(), spec.UUID))
		require.NoError(t, d.RemoveNetwork(t.Context(), "lan"))
		require.Empty(t, w.Violations())
	})
}

func TestGuestHearsThePowerButton(t *testing.T) {
	for name, c := range map[string]struct {
		uri     string
		prepare func(h *sim.Host, uuid string)
		wait    time.Duration
		want    string
	}{
		"and goes off a little later":         {uri: "sim://a?shutdown=3s", wait: 3 * time.Second, want: resources.StateStopped},
		"not before the time":                 {uri: "sim://a?shutdown=3s", wait: 2 * time.Second, want: resources.StateRunning},
		"not while it boots":                  {uri: "sim://a?boot=1s", wait: time.Hour, want: resources.StateRunning},
		"not while it is paused":              {uri: "sim://a", prepare: func(h *sim.Host, uuid string) { h.Pause(uuid) }, wait: time.Hour, want: resources.StatePaused},
		"not if all guests of the host don't": {uri: "sim://a?shutdown=never", wait: time.Hour, want: resources.StateRunning},
		"not if this guest doesn't":           {uri: "sim://a", prepare: func(h *sim.Host, uuid string) { h.SetStubborn(uuid, true) }, wait: time.Hour, want: resources.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.NewWorld()
				d := open(t, w, c.uri)
				uuid := running(t, d, specOf("web"))

				if c.prepare != nil {
					c.prepare(w.Host("a"), uuid)
				}

				require.NoError(t, d.RequestShutdown(t.Context(), uuid))
				require.NoError(t, d.RequestShutdown(t.Context(), uuid))
				time.Sleep(c.wait)
				synctest.Wait()

				state, _ := stateOf(t, w.Host("a"), uuid)
				require.Equal(t, c.want, state)
				time.Sleep(time.Hour)
			})
		})
	}

	t.Run("and that never ends a later run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.NewWorld()
			d := open(t, w, "sim://a?shutdown=3s")
			uuid := running(t, d, specOf("web"))

			require.NoError(t, d.RequestShutdown(t.Context(), uuid))
			require.NoError(t, d.ForceOff(t.Context(), uuid))
			require.NoError(t, d.StartDomain(t.Context(), uuid, false))
			time.Sleep(time.Minute)

			state, _ := stateOf(t, w.Host("a"), uuid)
			require.Equal(t, resources.StateRunning, state)
		})
	})
}

func TestWhatHappensToADomain(t *testing.T) {
	w := sim.NewWorld()
	h := w.Host("a")
	d := open(t, w, "sim://a")
	uuid := running(t, d, specOf("web"))

	for _, c := range []struct {
		do            func(string) bool
		state, reason string
	}{
		{h.Crash, resources.StateCrashed, "crashed"},
		{h.Crash, resources.StateCrashed, "crashed"},
		{h.Start, resources.StateRunning, "booted"},
		{h.GuestShutdown, resources.StateStopped, "shutdown"},
		{h.Start, resources.StateRunning, "booted"},
		{h.Pause, resources.StatePaused, "user"},
		{h.Resume, resources.StateRunning, "unpaused"},
		{h.Destroy, resources.StateStopped, "destroyed"},
	} {
		require.True(t, c.do(uuid))

		state, reason := stateOf(t, h, uuid)
		require.Equal(t, c.state, state)
		require.Equal(t, c.reason, reason)
	}

	require.False(t, h.Crash("none"))
	require.Zero(t, w.Changes()["ForceOff"], "others did this")
	require.EqualValues(t, 1, w.Changes()["StartDomain"])
}

func TestDomainUndefinedWhileItIsOn(t *testing.T) {
	w := sim.NewWorld()
	d := open(t, w, "sim://a")
	spec := specOf("web")
	uuid := running(t, d, spec)

	require.True(t, w.Host("a").Undefine(uuid))
	require.NoError(t, d.ForceOff(t.Context(), uuid))

	_, err := d.Domain(t.Context(), uuid)
	require.ErrorIs(t, err, hypervisor.ErrNotFound, "a transient domain vanishes when it goes off")

	running(t, d, spec)
	require.True(t, w.Host("a").Undefine(uuid))

	_, err = d.DefineDomain(t.Context(), spec)
	require.NoError(t, err)
	require.NoError(t, d.ForceOff(t.Context(), uuid))

	_, err = d.Domain(t.Context(), uuid)
	require.NoError(t, err, "it was defined again in time")
}

func TestChangesWithinTheMaximumAreLive(t *testing.T) {
	d := open(t, sim.NewWorld(), "sim://a")
	spec := specOf("web")
	spec.MaxCPUs, spec.MaxMemory = 4, resources.GiB
	running(t, d, spec)

	for _, c := range []struct {
		cpus    int
		memory  resources.Size
		restart []string
	}{
		{2, 512 * resources.MiB, nil},
		{2, resources.GiB, nil},
		{1, resources.GiB, []string{hypervisor.FieldCPUs}},
		{4, 512 * resources.MiB, nil},
	} {
		spec.CPUs, spec.Memory = c.cpus, c.memory

		result, err := d.DefineDomain(t.Context(), spec)
		require.NoError(t, err)
		require.Equal(t, c.restart, result.RestartRequired)
	}
}

func TestAGuestThatDoesNotGoAlongKeepsWhatItHas(t *testing.T) {
	w := sim.NewWorld()
	d := open(t, w, "sim://a")
	spec := specOf("web")
	spec.MaxMemory = spec.Memory
	spec.Disks = []hypervisor.DomainDisk{{Name: "data", Path: "/data.qcow2", Format: "qcow2"}}
	uuid := running(t, d, spec)
	w.Host("a").SetStubborn(uuid, true)

	less := spec
	less.Memory, less.Disks = spec.Memory/2, nil

	result, err := d.DefineDomain(t.Context(), less)
	require.NoError(t, err)
	require.Equal(t, []string{hypervisor.FieldDisks}, result.RestartRequired)

	for _, stubborn := range []bool{true, false} {
		w.Host("a").SetStubborn(uuid, stubborn)

		less.Insist = true
		result, err = d.DefineDomain(t.Context(), less)
		require.NoError(t, err)
		require.Empty(t, result.Changed)

		seen, err := d.Domain(t.Context(), uuid)
		require.NoError(t, err)
		require.Equal(t, stubborn, len(seen.RestartRequired) == 1)
		require.Equal(t, stubborn, len(seen.WaitsForGuest) == 1)
	}
}

func TestStartRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		uri    string
		change func(*hypervisor.DomainSpec)
	}{
		"a domain for which no memory is left": {"sim://a?memory=1GiB&enforce=true", func(s *hypervisor.DomainSpec) { s.Memory = 2 * resources.GiB }},
		"a domain whose volume is not there":   {"sim://a", func(s *hypervisor.DomainSpec) { s.Disks = []hypervisor.DomainDisk{{Path: "/var/lib/sim/a/gone.qcow2"}} }},
		"a domain whose network is not there":  {"sim://a", func(s *hypervisor.DomainSpec) { s.Interfaces = []hypervisor.DomainInterface{{Network: "gone"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, sim.NewWorld(), c.uri)
			spec := specOf("web")
			c.change(&spec)

			_, err := d.DefineDomain(t.Context(), spec)
			require.NoError(t, err)
			require.ErrorIs(t, d.StartDomain(t.Context(), spec.UUID, false), hypervisor.ErrInvalid)
		})
	}
}

func TestWorldSeesWhatMustNeverBe(t *testing.T) {
	w := sim.NewWorld()
	a, b := open(t, w, "sim://a"), open(t, w, "sim://b")
	spec := specOf("web")
	spec.Interfaces = []hypervisor.DomainInterface{{Network: "lan"}}

	for _, d := range []hypervisor.Driver{a, b} {
		_, err := d.EnsureNetwork(t.Context(), hypervisor.NetworkSpec{Name: "lan"})
		require.NoError(t, err)
	}

	running(t, a, spec)
	require.Empty(t, w.Violations())

	running(t, b, spec)
	require.NoError(t, a.RemoveNetwork(t.Context(), "lan"))

	require.Len(t, w.Domains(spec.UUID), 2)
	require.Len(t, w.Violations(), 2)
	require.Contains(t, w.Violations()[0], `network "lan" was removed under domain "web"`)
	require.Contains(t, w.Violations()[1], "is on at both a and b")
}
