package vm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/vm/nocloud"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// seeds returns the names of the seeds on host a.
func (w *world) seeds() (names []string) {
	for name := range w.host().Volumes() {
		if strings.HasSuffix(name, ".iso") {
			names = append(names, name)
		}
	}

	slices.Sort(names)

	return names
}

// seed returns the files of the one seed on host a.
func (w *world) seed() map[string]string {
	w.t.Helper()
	require.Len(w.t, w.seeds(), 1)

	files, _, err := nocloud.Read(w.host().VolumeContent(w.seeds()[0]))
	require.NoError(w.t, err)

	return files
}

func userData(text string) func(*resources.VMConfigSpec) {
	return func(s *resources.VMConfigSpec) { s.CloudInit = &resources.CloudInit{UserData: text} }
}

func TestCloudInit(t *testing.T) {
	t.Parallel()

	t.Run("the guest has a CD-ROM with what it is told, until it is deleted", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) {
				s.CloudInit = &resources.CloudInit{UserData: "#cloud-config\npackages: [nginx]\n", SSHKeys: []string{"ssh-ed25519 AAAA"}}
			})

			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
			require.Equal(t, "#cloud-config\npackages: [nginx]\n", w.seed()["user-data"])
			require.JSONEq(t, `{"instance-id": "`+uuid("web")+`", "local-hostname": "web", "public-keys": ["ssh-ed25519 AAAA"]}`, w.seed()["meta-data"])
			require.NotContains(t, w.seed(), "network-config")

			disks := w.domain("web").Spec.Disks
			require.Equal(t, hypervisor.DomainDisk{
				Name: hypervisor.SeedDisk, Path: "/var/lib/sim/a/" + w.seeds()[0], Format: "iso", ReadOnly: true, CDROM: true,
			}, disks[len(disks)-1])

			// Looking again changes nothing.
			before := w.steps("web")
			w.nudge("web")
			require.Equal(t, before, w.steps("web"))

			w.teardown(resources.NewVMConfig("web"))
			w.pass(2 * time.Minute)
			require.Nil(t, get(w, resources.NewVMConfig("web")))
			require.Empty(t, w.seeds())
			require.Contains(t, w.host().Volumes(), "web.root.qcow2", "disks are kept")
		})
	})

	t.Run("a change waits for a restart, and the old one goes after it", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", userData("one"))
			first := w.seeds()

			w.declare("web", userData("two"))
			w.pass(time.Second)
			require.Equal(t, []string{hypervisor.FieldCloudInit}, w.status("web").RestartRequired)
			require.Equal(t, resources.ReasonRestartRequired, w.reason("web", resources.ConditionFalse))
			require.Len(t, w.seeds(), 2, "the guest that runs keeps its own")

			w.declare("web", userData("one"))
			w.pass(time.Second)
			require.Empty(t, w.status("web").RestartRequired, "taken back")
			require.Equal(t, first, w.seeds())

			w.declare("web", userData("two"))
			w.pass(time.Second)
			modify(w, resources.NewOverride("web"), func(s *resources.OverrideSpec) { s.RestartID = "1" })
			w.pass(2 * time.Minute)
			require.Empty(t, w.status("web").RestartRequired)
			require.Equal(t, "two", w.seed()["user-data"])
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))

			w.declare("web", func(s *resources.VMConfigSpec) { s.CloudInit = nil })
			w.pass(time.Second)
			require.Equal(t, []string{hypervisor.FieldCloudInit}, w.status("web").RestartRequired)
			modify(w, resources.NewOverride("web"), func(s *resources.OverrideSpec) { s.RestartID = "2" })
			w.pass(2 * time.Minute)
			require.Empty(t, w.seeds())
			require.Empty(t, w.status("web").Seeds)
		})
	})

	t.Run("a file of secrets is read, read again, and missed", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.make("web", func(s *resources.VMConfigSpec) { s.CloudInit = &resources.CloudInit{UserDataFile: "/secrets/web"} })
			require.Equal(t, resources.ReasonUnreadable, w.reason("web", resources.ConditionFalse))
			require.Empty(t, w.seeds())
			_, there := w.host().Domain(uuid("web"))
			require.False(t, there)

			w.stop()
			w.secrets = map[string]string{"/secrets/web": "secret"}
			w.start()
			w.pass(time.Minute)
			require.Equal(t, "secret", w.seed()["user-data"])
			require.Equal(t, resources.StateRunning, w.domain("web").State)
		})
	})

	t.Run("an interface with an address gets it statically", func(t *testing.T) {
		t.Parallel()
		inWorld(t, testStaticAddress)
	})
}

func testStaticAddress(t *testing.T, w *world) {
	require.NoError(t, w.host().AddNetwork(hypervisor.Network{Name: "lan", UUID: "n", Active: true}))
	modify(w, resources.NewNetwork("lan"), func(s *resources.NetworkSpec) { s.Subnet, s.Domain = "10.7.0.0/24", "lan.example" })

	w.declare("web", func(s *resources.VMConfigSpec) {
		s.CloudInit = &resources.CloudInit{}
		s.Interfaces = []resources.Interface{{Network: "lan", Address: "10.7.0.10"}, {Network: "lan"}}
	})
	w.place("web", "a",
		resources.NetworkBinding{Network: "lan", LibvirtNetwork: "lan", MAC: "52:54:00:00:00:01", Address: "10.7.0.10"},
		resources.NetworkBinding{Network: "lan", LibvirtNetwork: "lan", MAC: "52:54:00:00:00:02", Address: "10.7.0.100"})
	w.pass(5 * time.Second)

	require.JSONEq(t, `{"version": 2, "ethernets": {
		"nic0": {
			"match": {"macaddress": "52:54:00:00:00:01"}, "dhcp4": false, "addresses": ["10.7.0.10/24"],
			"routes": [{"to": "0.0.0.0/0", "via": "10.7.0.1"}], "nameservers": {"addresses": ["10.7.0.1"], "search": ["lan.example"]}
		},
		"nic1": {"match": {"macaddress": "52:54:00:00:00:02"}, "dhcp4": true}
	}}`, w.seed()["network-config"])
}

// A kill between the steps leaves no seed behind, and a VM that moves takes none along.
func TestCaseV66SeedsAreNotLeaked(t *testing.T) {
	t.Parallel()

	for name, call := range map[string]string{"its volume is made": "EnsureVolume", "it is defined": "DefineDomain", "it is started": "StartDomain"} {
		t.Run("killed when "+name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				remove := w.host().Inject(sim.Fault{Kind: sim.LoseAfter, Call: call})
				w.make("web", userData("one"))
				w.restart()
				w.pass(time.Second)
				w.declare("web", userData("two"))
				w.pass(10 * time.Second)
				remove()
				w.pass(time.Minute)

				w.declare("web", userData("three"))
				w.pass(time.Minute)
				modify(w, resources.NewOverride("web"), func(s *resources.OverrideSpec) { s.RestartID = "1" })
				w.pass(3 * time.Minute)
				require.Equal(t, "three", w.seed()["user-data"])

				w.teardown(resources.NewVMConfig("web"))
				w.pass(2 * time.Minute)
				require.Empty(t, w.seeds())
			})
		})
	}

	t.Run("moved", func(t *testing.T) {
		t.Parallel()
		inWorld(t, func(t *testing.T, w *world) {
			w.connect("b", true)
			w.declare("web", userData("one"))
			w.place("web", "a")
			w.pass(time.Second)
			require.Len(t, w.seeds(), 1)

			w.teardown(resources.NewVMPlacement("web"))
			w.pass(2 * time.Minute)
			require.Empty(t, w.seeds())
			require.True(t, w.leave("web"))
			w.place("web", "b")
			w.pass(time.Second)
			require.Len(t, w.sim.Host("b").Volumes(), 1)
			require.Equal(t, resources.ReasonConverged, w.reason("web", resources.ConditionTrue))
		})
	})
}
