package vm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("a placed VM is made in order, holds what it uses, and converges", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", nil)

			require.Equal(t, []string{"make volume web.root.qcow2", "define", "start"}, w.steps("web"))
			require.Equal(t, resources.StateRunning, w.domain("web").State)

			s := w.status("web")
			require.Equal(t, resources.StateRunning, s.State)
			require.Equal(t, "a", s.Host)
			require.Equal(t, uuid("web"), s.DomainUUID)
			require.Equal(t, "uid-of-web", s.UID)
			require.EqualValues(t, 1, s.ObservedRevision)
			require.Equal(t, []string{"root"}, s.DisksMade)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

			for _, held := range []bool{
				get(w, resources.NewVMConfig("web")).Metadata().Finalizers().Has(resources.ControllerVM),
				get(w, resources.NewVMPlacement("web")).Metadata().Finalizers().Has(resources.ControllerVM),
				get(w, resources.NewNetworkConfig("web")).Metadata().Finalizers().Has(resources.ControllerVM),
			} {
				require.True(t, held)
			}
		})
	})

	for name, test := range map[string]struct{ power, state string }{
		"stopped is defined and not started": {resources.PowerStopped, resources.StateStopped},
		"paused is started paused":           {resources.PowerPaused, resources.StatePaused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", func(s *resources.VMConfigSpec) { s.Power = test.power })

				require.Equal(t, test.state, w.status("web").State)
				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
			})
		})
	}

	t.Run("a VM that is not placed says so and touches nothing", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.declare("web", func(*resources.VMConfigSpec) {})
			modify(w, resources.NewVMPlacement("web"), func(s *resources.VMPlacementSpec) {
				s.Reason, s.Message = resources.ReasonUnschedulable, "no memory"
			})
			w.pass(time.Second)

			placed := resources.FindCondition(w.status("web").Conditions, resources.ConditionPlaced)
			require.Equal(t, resources.ReasonUnschedulable, placed.Reason)
			require.Equal(t, "no memory", placed.Message)
			require.Empty(t, w.steps("web"))
		})
	})

	t.Run("nothing is held or made before the network is ready, and the address is shown once it is leased", func(t *testing.T) {
		t.Parallel()
		inWorld(t, testNetwork)
	})

	t.Run("a disk waits for its image, and the image is held", func(t *testing.T) {
		t.Parallel()
		inWorld(t, testImage)
	})
}

// The document of an image is taken away while a VM uses it: it is let go of with the VM, and nobody else takes it up.
func TestAnImageThatIsToGoIsHeldByItsLastVM(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		disk := func(s *resources.VMConfigSpec) {
			s.Disks = []resources.Disk{{Name: "root", Image: "debian", OnDelete: resources.OnDeleteKeep}}
		}

		modify(w, resources.NewImage("debian"), func(s *resources.ImageSpec) { s.Source = "/images/debian.qcow2" })
		modify(w, resources.NewImageStatus("debian"), func(s *resources.ImageStatusSpec) {
			s.Hosts = []resources.ImageOnHost{{Host: "a", Path: "/images/debian.qcow2", Ready: true}}
		})
		w.make("web", disk)
		require.Equal(t, resources.StateRunning, w.status("web").State)

		_, err := safe.StateUpdateWithConflicts(t.Context(), w.store.State(), resources.NewImage("debian").Metadata(), func(i *resources.Image) error {
			resources.SetRemovalPending(i.Metadata(), "test")

			return nil
		})
		require.NoError(t, err)
		w.make("late", disk)
		require.Equal(t, resources.ReasonImageMissing, w.reason("late", resources.ConditionFalse))
		require.True(t, resources.IsUsed(get(w, resources.NewImage("debian")).Metadata()))

		for _, name := range []string{"web", "late"} {
			w.teardown(resources.NewVMConfig(name))
		}

		w.pass(2 * time.Minute)
		require.Nil(t, get(w, resources.NewVMConfig("web")))
		require.False(t, resources.IsUsed(get(w, resources.NewImage("debian")).Metadata()))
	})
}

func testNetwork(t *testing.T, w *world) {
	const mac = "52:54:00:00:00:01"

	require.NoError(t, w.host().AddNetwork(hypervisor.Network{
		Name: "lan", UUID: "n", Active: true, Hosts: []hypervisor.NetworkHost{{MAC: mac, Address: "10.7.0.10", Name: "web"}},
	}))

	w.declare("web", func(s *resources.VMConfigSpec) { s.Interfaces = []resources.Interface{{Network: "lan"}} })
	w.place("web", "a")
	modify(w, resources.NewNetworkConfig("web"), func(s *resources.NetworkConfigSpec) {
		s.Ready, s.Reason, s.Message = false, resources.ReasonNetworkMissing, `no network "lan" is declared`
	})
	w.pass(time.Second)

	ready := resources.FindCondition(w.status("web").Conditions, resources.ConditionNetworkReady)
	require.Equal(t, resources.ReasonNetworkMissing, ready.Reason)
	require.Equal(t, `the network is not ready: no network "lan" is declared`, resources.FindCondition(w.status("web").Conditions, resources.ConditionConverged).Message)
	require.Empty(t, w.steps("web"))
	require.True(t, get(w, resources.NewVMPlacement("web")).Metadata().Finalizers().Empty())

	modify(w, resources.NewNetworkConfig("web"), func(s *resources.NetworkConfigSpec) {
		s.Ready = true
		s.Interfaces = []resources.NetworkBinding{{Network: "lan", LibvirtNetwork: "lan", MAC: mac, Address: "10.7.0.10"}}
	})
	w.pass(5 * time.Second)

	require.Equal(t, resources.StateRunning, w.status("web").State)
	require.Equal(t, []resources.Address{
		{Address: "10.7.0.10", Source: "declared", Network: "lan", MAC: mac},
		{Address: "10.7.0.10", Source: "lease", Network: "lan", MAC: mac},
	}, w.status("web").Addresses)

	// Converged VMs are left alone: no requeue is parked.
	before := w.reconciles.Load()
	w.pass(time.Hour)
	require.Equal(t, before, w.reconciles.Load())
}

func testImage(t *testing.T, w *world) {
	w.declare("web", func(s *resources.VMConfigSpec) {
		s.Disks = []resources.Disk{{Name: "root", Image: "debian", OnDelete: resources.OnDeleteKeep}}
	})
	w.place("web", "a")
	w.pass(time.Second)
	require.Equal(t, resources.ReasonImageMissing, w.reason("web", resources.ConditionFalse))

	modify(w, resources.NewImage("debian"), func(s *resources.ImageSpec) { s.Source = "/images/debian.qcow2" })
	w.pass(time.Second)
	require.Equal(t, resources.ReasonImageFetching, w.reason("web", resources.ConditionFalse))
	require.Empty(t, w.host().Volumes())

	modify(w, resources.NewImageStatus("debian"), func(s *resources.ImageStatusSpec) {
		s.Hosts = []resources.ImageOnHost{{Host: "a", Path: "/images/debian.qcow2", Ready: true}}
	})
	w.pass(time.Second)
	require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

	w.teardown(resources.NewImage("debian"))
	require.NotNil(t, get(w, resources.NewImage("debian")), "an image in use is held")

	w.teardown(resources.NewVMConfig("web"))
	w.pass(2 * time.Minute)
	require.Nil(t, get(w, resources.NewVMConfig("web")))
	require.True(t, get(w, resources.NewImage("debian")).Metadata().Finalizers().Empty())
}

// A domain whose start fails is used again at the next try, and nothing is made twice.
func TestCaseV23(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.host().Inject(sim.Fault{Kind: sim.FailBefore, Call: "StartDomain", Times: 7})
		w.make("web", nil)

		defined := w.domain("web")
		require.Equal(t, resources.StateStopped, defined.State)
		require.NotEmpty(t, w.status("web").LastError)

		w.pass(time.Minute)
		require.Equal(t, resources.StateRunning, w.domain("web").State)
		require.Equal(t, defined.UUID, w.domain("web").UUID)
		require.Equal(t, []string{"make volume web.root.qcow2", "define", "start"}, w.steps("web"))
		require.Empty(t, w.status("web").LastError)
	})
}

// The host dies after the volume was made, before the domain is defined: the work goes on there when it returns.
func TestCaseV22(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		remove := w.host().Inject(sim.Fault{Kind: sim.Hang, Call: "DefineDomain"})
		w.make("web", nil)
		require.Len(t, w.host().Volumes(), 1)

		w.host().Kill(true)
		w.connect("a", false)
		w.pass(time.Hour)
		require.Equal(t, resources.StateUnknown, w.status("web").State)

		remove()
		w.host().Revive()
		w.connect("a", true)
		w.pass(time.Second)

		require.Equal(t, resources.StateRunning, w.domain("web").State)
		require.Len(t, w.host().Volumes(), 1)
	})
}

func TestCaseV24(t *testing.T) {
	t.Parallel()

	foreign := hypervisor.Domain{
		Name: "web", UUID: "8a4a9b2e-3c1c-4b7e-9a53-0c6c2f7f5d11", State: resources.StateRunning,
		Spec: hypervisor.DomainSpec{CPUs: 1, Memory: 512 * resources.MiB},
	}

	t.Run("a foreign domain of the same name is never touched", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.host().AddDomain(foreign))
			w.make("web", nil)

			require.Equal(t, resources.ReasonNameTaken, w.reason("web", resources.ConditionFalse))
			require.Empty(t, w.steps("web"))

			w.teardown(resources.NewVMConfig("web"))
			w.pass(2 * time.Minute)
			require.Nil(t, get(w, resources.NewVMConfig("web")))

			left, ok := w.host().Domain(foreign.UUID)
			require.True(t, ok)
			require.Equal(t, resources.StateRunning, left.State)
		})
	})

	t.Run("the name that becomes free is taken", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.host().AddDomain(foreign))
			w.make("web", nil)
			w.host().Destroy(foreign.UUID)
			w.host().Undefine(foreign.UUID)
			w.pass(2 * time.Minute)

			require.Equal(t, resources.StateRunning, w.domain("web").State)
		})
	})

	t.Run("an adopted domain that matches gets the mark and no other change", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, w.host().AddDomain(foreign))
			w.declare("web", func(s *resources.VMConfigSpec) { s.Adopt = &resources.Adopt{} })
			w.place("web", "a")
			w.pass(time.Second)

			require.Equal(t, []string{"redefine"}, w.steps("web"))

			adopted, ok := w.host().Domain(foreign.UUID)
			require.True(t, ok)
			require.Equal(t, gatewayID, adopted.Gateway)
			require.Equal(t, resources.StateRunning, adopted.State)
			require.Empty(t, adopted.RestartRequired)
			require.Equal(t, foreign.UUID, w.status("web").DomainUUID)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})

	t.Run("an adopted domain keeps its devices and its text, and is left alone from then on", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			rich := foreign
			rich.Spec.Description = "what somebody wrote"
			rich.Spec.Disks = []hypervisor.DomainDisk{
				{Name: "vda", Path: "/images/web.img", Format: "qcow2", Foreign: true}, {Name: "fda", Path: "/images/floppy.img", Format: "raw", Foreign: true},
			}
			rich.Spec.Interfaces = []hypervisor.DomainInterface{{MAC: "52:54:00:00:00:09", Foreign: true}}
			require.NoError(t, w.host().AddDomain(rich))
			w.declare("web", func(s *resources.VMConfigSpec) {
				s.Adopt = &resources.Adopt{UUID: rich.UUID}
				s.Disks = []resources.Disk{{Name: "root", Path: "/images/web.img", Format: "qcow2", OnDelete: resources.OnDeleteKeep}}
			})
			w.place("web", "a")
			w.pass(time.Second)

			for range 10 {
				w.nudge("web")
				w.pass(time.Second)
			}

			require.Equal(t, []string{"redefine"}, w.steps("web"))
			require.EqualValues(t, 1, w.sim.Calls()["DefineDomain"], "there is nothing to define again")

			adopted, _ := w.host().Domain(rich.UUID)
			require.Equal(t, "what somebody wrote", adopted.Spec.Description)
			require.Len(t, adopted.Spec.Disks, 2)
			require.Len(t, adopted.Spec.Interfaces, 1)
			require.Empty(t, adopted.RestartRequired)
		})
	})

	t.Run("a domain with the mark of another gateway is taken over only from the one that is named", func(t *testing.T) {
		t.Parallel()

		for named, reason := range map[string]string{"": resources.ReasonNameTaken, "another": resources.ReasonNameTaken, "lost": resources.ReasonConverged} {
			inWorld(t, func(t *testing.T, w *world) {
				marked := foreign
				marked.Gateway, marked.VM = "lost", "web"
				require.NoError(t, w.host().AddDomain(marked))
				w.declare("web", func(s *resources.VMConfigSpec) { s.Adopt = &resources.Adopt{UUID: marked.UUID, Gateway: named} })
				w.place("web", "a")
				w.pass(time.Second)

				require.Equal(t, reason, resources.FindCondition(w.status("web").Conditions, resources.ConditionConverged).Reason)

				left, ok := w.host().Domain(marked.UUID)
				require.True(t, ok)
				require.Equal(t, resources.StateRunning, left.State)
				require.Equal(t, named == "lost", left.Gateway == gatewayID)
			})
		}
	})

	t.Run("the domain of another VM is never taken over", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			marked := foreign
			marked.Gateway, marked.VM = gatewayID, "other"
			require.NoError(t, w.host().AddDomain(marked))
			w.make("web", func(s *resources.VMConfigSpec) { s.Adopt = &resources.Adopt{UUID: marked.UUID, Gateway: gatewayID} })

			require.Equal(t, resources.ReasonNameTaken, w.reason("web", resources.ConditionFalse))

			left, _ := w.host().Domain(marked.UUID)
			require.Equal(t, "other", left.VM)
		})
	})

	t.Run("what is not there to adopt is not made", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) { s.Adopt = &resources.Adopt{} })

			require.Equal(t, resources.ReasonWaiting, w.reason("web", resources.ConditionFalse))
			require.Empty(t, w.steps("web"))
		})
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"what the hypervisor refuses is said, and tried again a minute later":    {hypervisor.ErrInvalid, resources.ReasonHypervisorFailed},
		"what the hypervisor can't do is said, and tried again a minute later":   {hypervisor.ErrUnsupported, resources.ReasonNotSupported},
		"a domain in another operation is waited for":                            {hypervisor.ErrBusy, resources.ReasonBusy},
		"any other failure is said, and tried again with COSI's backoff":         {errors.New("out of luck"), resources.ReasonHypervisorFailed},
		"a name that is taken in the meantime is said, and tried a minute later": {hypervisor.ErrForeign, resources.ReasonNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				remove := w.host().Inject(sim.Fault{Kind: sim.FailBefore, Call: "DefineDomain", Err: test.err})
				w.make("web", nil)

				require.Equal(t, test.reason, w.reason("web", resources.ConditionFalse))
				require.Contains(t, w.status("web").LastError, test.err.Error())

				remove()
				w.pass(2 * time.Minute)
				require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
			})
		})
	}
}

func TestCaseV60ADefinitionThatIsTakenAwayUnderARunningDomainIsMadeAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		starts := w.sim.Changes()["StartDomain"]

		require.True(t, w.host().Undefine(uuid("web")))
		require.True(t, w.domain("web").Transient)
		w.nudge("web") // whatever makes it look, and not only the event that may be lost
		require.False(t, w.domain("web").Transient)
		require.Equal(t, resources.StateRunning, w.status("web").State)
		require.Equal(t, starts, w.sim.Changes()["StartDomain"])
		require.Equal(t, "redefine", w.steps("web")[len(w.steps("web"))-1])
	})
}
