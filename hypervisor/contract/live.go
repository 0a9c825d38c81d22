package contract

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// insistInterval is how often a guest that may still boot is asked again.
const insistInterval = time.Second

func testLive(t *testing.T, h *Harness) {
	testLiveDisk(t, h)
	testLiveInterface(t, h)
	testLiveMemory(t, h)
	testRefusedLive(t, h)
	testPlan(t, h)
}

// settles defines a domain, and waits until nothing of it needs a restart or waits for the guest. The guest is asked again
// while it boots.
func (f *fixture) settles(spec hypervisor.DomainSpec) {
	f.Helper()

	_, err := f.driver.DefineDomain(f.ctx(), spec)
	require.NoError(f, err)

	spec.Insist = true
	asked := time.Now()

	f.eventually(func() bool {
		seen := f.domain(spec.UUID)
		if len(seen.RestartRequired) == 0 && len(seen.WaitsForGuest) == 0 {
			return true
		}

		if time.Since(asked) > insistInterval {
			asked = time.Now()
			_, err := f.driver.DefineDomain(f.ctx(), spec)
			require.NoError(f, err)
		}

		return false
	}, "the running domain never became what it is defined as")
	require.Equal(f, resources.StateRunning, f.domain(spec.UUID).State)
}

// emptyVolume makes a volume for a test.
func (f *fixture) emptyVolume(name string) string {
	f.Helper()

	path, _, err := f.driver.EnsureVolume(f.ctx(), hypervisor.VolumeSpec{Name: name, Size: 4 * resources.MiB})
	require.NoError(f, err)

	return path
}

func testLiveDisk(t *testing.T, h *Harness) {
	t.Run("attaches a disk and takes it away without a restart", func(t *testing.T) {
		need(t, h.Capabilities.Volumes, "volumes")

		f := begin(t, h)
		spec := f.spec()
		name := spec.VM + ".data.qcow2"
		f.Cleanup(func() { f.remove(spec.UUID); f.removeVolume(name) })
		path := f.emptyVolume(name)
		f.define(spec)
		f.start(spec.UUID)

		before := spec
		spec.Disks = []hypervisor.DomainDisk{{Name: "data", Path: path, Format: "qcow2"}}

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Equal(t, []string{hypervisor.FieldDisks}, result.Changed)

		if !h.Capabilities.HotPlug {
			require.Equal(t, []string{hypervisor.FieldDisks}, result.RestartRequired)
			require.Empty(t, result.Live)

			return
		}

		require.Empty(t, result.Refused)
		require.Equal(t, []hypervisor.LiveChange{{
			Field: hypervisor.FieldDisks, Item: "data", Action: hypervisor.ActionAttach, Effect: hypervisor.EffectLive,
		}}, result.Live)
		require.Empty(t, result.RestartRequired)
		require.Empty(t, f.domain(spec.UUID).RestartRequired)

		f.settles(before)
		require.Empty(t, f.domain(spec.UUID).Spec.Disks)
	})
}

func testLiveInterface(t *testing.T, h *Harness) {
	t.Run("attaches an interface, plugs it in elsewhere and takes it away without a restart", func(t *testing.T) {
		need(t, h.Capabilities.Networks && h.Capabilities.HotPlug, "changing devices of a running guest")

		f := begin(t, h)
		one, two := f.networkSpec(), f.networkSpec()
		spec := f.spec()

		for _, n := range []hypervisor.NetworkSpec{one, two} {
			_, err := f.driver.EnsureNetwork(f.ctx(), n)
			require.NoError(t, err)
		}

		f.define(spec)
		f.start(spec.UUID)

		before := spec

		for _, network := range []string{one.Name, two.Name} {
			spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:00:77:01", Network: network}}

			result, err := f.driver.DefineDomain(f.ctx(), spec)
			require.NoError(t, err)
			require.Equal(t, []string{hypervisor.FieldInterfaces}, result.Changed)
			require.Empty(t, result.Refused)
			require.Empty(t, result.RestartRequired)
			require.Empty(t, f.domain(spec.UUID).RestartRequired)
		}

		f.settles(before)
		f.remove(spec.UUID) // before its networks
	})
}

func testLiveMemory(t *testing.T, h *Harness) {
	t.Run("gives memory and takes it back within the maximum, which is seen and not believed", func(t *testing.T) {
		need(t, h.Capabilities.HotPlug, "taking memory back")

		f := begin(t, h)
		spec := f.spec()
		spec.MaxMemory = spec.Memory + 64*resources.MiB
		f.define(spec)
		f.start(spec.UUID)

		for _, more := range []resources.Size{0, 32 * resources.MiB, 16 * resources.MiB} {
			changed := spec
			changed.Memory += more
			f.settles(changed)
			require.Equal(t, changed.Memory, f.domain(spec.UUID).Spec.Memory)
		}
	})

	t.Run("says what a guest that is paused has not given back", func(t *testing.T) {
		need(t, h.Capabilities.HotPlug && h.Capabilities.Pause, "taking memory back")

		f := begin(t, h)
		spec := f.spec()
		spec.MaxMemory = spec.Memory + 64*resources.MiB
		spec.Memory = spec.MaxMemory
		f.define(spec)
		require.NoError(t, f.driver.StartDomain(f.ctx(), spec.UUID, true))

		less := spec
		less.Memory -= 64 * resources.MiB

		result, err := f.driver.DefineDomain(f.ctx(), less)
		require.NoError(t, err)
		require.Empty(t, result.RestartRequired, "a restart would not change it")
		require.Equal(t, []string{hypervisor.FieldMemory}, f.domain(spec.UUID).WaitsForGuest)

		_, err = f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Empty(t, f.domain(spec.UUID).WaitsForGuest)
	})
}

func testRefusedLive(t *testing.T, h *Harness) {
	t.Run("says what could not be attached, until it is taken back (V61)", func(t *testing.T) {
		need(t, h.Capabilities.Volumes && h.Capabilities.HotPlug, "changing devices of a running guest")

		f := begin(t, h)
		spec := f.spec()
		name := spec.VM + ".lost.qcow2"
		path := f.emptyVolume(name)
		f.removeVolume(name)
		f.define(spec)
		f.start(spec.UUID)

		before := spec
		spec.Disks = []hypervisor.DomainDisk{{Name: "lost", Path: path, Format: "qcow2"}}

		result, err := f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Len(t, result.Refused, 1)
		require.Contains(t, result.Refused[0], "attach disk lost: ")
		require.Equal(t, []string{hypervisor.FieldDisks}, result.RestartRequired)
		require.Equal(t, resources.StateRunning, f.domain(spec.UUID).State)

		result, err = f.driver.DefineDomain(f.ctx(), spec)
		require.NoError(t, err)
		require.Empty(t, result.Refused, "it is not tried at every look")

		result, err = f.driver.DefineDomain(f.ctx(), before)
		require.NoError(t, err)
		require.Empty(t, result.RestartRequired)
	})
}

// testPlan plans changes and makes them: what was planned is what is done, and planning does nothing.
func testPlan(t *testing.T, h *Harness) {
	t.Run("plans a domain that is not there", func(t *testing.T) {
		f := begin(t, h)
		plan, err := f.driver.PlanDomain(f.ctx(), f.spec())
		require.NoError(t, err)
		require.Equal(t, hypervisor.DomainPlan{}, plan)
	})

	for name, change := range map[string]func(*hypervisor.DomainSpec){
		"nothing":                    func(*hypervisor.DomainSpec) {},
		"a description":              func(s *hypervisor.DomainSpec) { s.Description = "another" },
		"CPUs within the maximum":    func(s *hypervisor.DomainSpec) { s.CPUs = 2 },
		"CPUs above the maximum":     func(s *hypervisor.DomainSpec) { s.CPUs, s.MaxCPUs = 3, 3 },
		"memory within the maximum":  func(s *hypervisor.DomainSpec) { s.Memory += 16 * resources.MiB },
		"memory above the maximum":   func(s *hypervisor.DomainSpec) { s.Memory, s.MaxMemory = 2*s.MaxMemory, 2*s.MaxMemory },
		"a channel":                  func(s *hypervisor.DomainSpec) { s.GuestAgent = true },
		"a screen":                   func(s *hypervisor.DomainSpec) { s.Graphics = "vnc" },
		"several fields of all kind": func(s *hypervisor.DomainSpec) { s.CPUs, s.GuestAgent, s.Description = 2, true, "x" },
	} {
		t.Run("does what it planned for "+name, func(t *testing.T) {
			f := begin(t, h)
			spec := f.spec()
			spec.CPUs, spec.MaxCPUs, spec.MaxMemory = 1, 2, spec.Memory+32*resources.MiB
			f.define(spec)
			require.NoError(t, f.driver.StartDomain(f.ctx(), spec.UUID, h.Capabilities.Pause))

			before := f.domain(spec.UUID)
			change(&spec)

			plan, err := f.driver.PlanDomain(f.ctx(), spec)
			require.NoError(t, err)
			require.True(t, plan.Exists && plan.On && !plan.Foreign)
			require.Equal(t, before, f.domain(spec.UUID), "planning changes nothing")
			require.Equal(t, before, plan.Observed)

			result, err := f.driver.DefineDomain(f.ctx(), spec)
			require.NoError(t, err)
			require.ElementsMatch(t, plan.Changed, result.Changed)

			var restart []string

			for _, c := range plan.Changes {
				if c.Effect == hypervisor.EffectRestart {
					restart = append(restart, c.Field)
				}
			}

			require.Equal(t, restart, result.RestartRequired)
		})
	}
}

// removeVolume takes a volume away.
func (f *fixture) removeVolume(name string) {
	f.Helper()

	d := f.h.Open(f.T)
	defer func() { require.NoError(f, d.Close()) }()

	require.NoError(f, d.RemoveVolume(f.ctx(), name))
}
