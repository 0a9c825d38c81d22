package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// A domain of a gateway that is gone brings its volumes with it: they are used where they are, and never made anew.
func TestVolumesComeWithAnAdoptedDomain(t *testing.T) {
	t.Parallel()

	const path = "/var/lib/gateway-lost/web.root.qcow2"

	lost := hypervisor.Domain{
		Name: "web", UUID: "8a4a9b2e-3c1c-4b7e-9a53-0c6c2f7f5d11", State: resources.StateRunning, Gateway: "lost", VM: "web",
		Spec: hypervisor.DomainSpec{CPUs: 1, Memory: 512 * resources.MiB, Disks: []hypervisor.DomainDisk{{Name: "root", Path: path, Format: "qcow2"}}},
	}

	for name, fault := range map[string]sim.Fault{
		"at once": {}, "after a call that was lost": {Kind: sim.FailBefore, Call: "DefineDomain", Times: 1},
		"after a call whose answer was lost": {Kind: sim.FailAfter, Call: "DefineDomain", Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				require.NoError(t, w.host().AddDomain(lost))

				if fault.Call != "" {
					w.host().Inject(fault)
				}

				w.make("web", func(s *resources.VMConfigSpec) {
					s.Disks[0].OnDelete = resources.OnDeleteRemove
					s.Adopt = &resources.Adopt{UUID: lost.UUID, Gateway: "lost"}
				})
				w.pass(time.Minute)

				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
				require.Equal(t, map[string]string{"root": path}, w.status("web").AdoptedDisks)

				used := func() {
					t.Helper()

					domain, ok := w.host().Domain(lost.UUID)
					require.True(t, ok)
					require.Equal(t, resources.StateRunning, domain.State)
					require.Equal(t, path, domain.Spec.Disks[0].Path)
					require.Empty(t, w.host().Volumes())
				}
				used()

				w.host().Destroy(lost.UUID)
				w.nudge("web")
				w.pass(time.Minute)
				used()

				w.host().Destroy(lost.UUID)
				w.host().Undefine(lost.UUID)
				w.nudge("web")
				w.pass(2 * time.Minute)
				used()

				w.teardown(resources.NewVMConfig("web"))
				w.pass(2 * time.Minute)
				require.Nil(t, get(w, resources.NewVMConfig("web")))
				require.Zero(t, w.sim.Calls()["RemoveVolume"], "a file of another gateway is never removed")
			})
		})
	}
}
