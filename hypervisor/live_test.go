package hypervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

var everything = hypervisor.HotPlug{CPUs: true, Memory: true, Balloon: true, Devices: true}

// running is a domain with a bit of everything.
func running() hypervisor.DomainSpec {
	s := hypervisor.DomainSpec{
		Name: "web", CPUs: 2, MaxCPUs: 4, Memory: resources.GiB, MaxMemory: 2 * resources.GiB,
		Disks:      []hypervisor.DomainDisk{{Name: "root", Path: "/root.qcow2"}, {Name: "seed", Path: "/seed.iso", CDROM: true}},
		Interfaces: []hypervisor.DomainInterface{{MAC: "52:54:00:00:00:01", Network: "lan"}, {MAC: "52:54:00:00:00:02", Network: "dmz"}},
	}

	return s.Normalised()
}

func TestWhatIsLiveAndWhatNeedsARestart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*hypervisor.DomainSpec)
		can    hypervisor.HotPlug
		// want are the changes in words, each with its effect.
		want []string
	}{
		"nothing":                     {func(*hypervisor.DomainSpec) {}, everything, nil},
		"texts":                       {func(s *hypervisor.DomainSpec) { s.Description, s.VM, s.Revision = "x", "y", 7 }, everything, nil},
		"the order of devices":        {func(s *hypervisor.DomainSpec) { s.Disks[0], s.Disks[1] = s.Disks[1], s.Disks[0] }, everything, nil},
		"more CPUs":                   {func(s *hypervisor.DomainSpec) { s.CPUs = 4 }, everything, []string{"set cpus: live"}},
		"fewer CPUs":                  {func(s *hypervisor.DomainSpec) { s.CPUs = 1 }, everything, []string{"set cpus: restart"}},
		"CPUs above the maximum":      {func(s *hypervisor.DomainSpec) { s.CPUs, s.MaxCPUs = 8, 8 }, everything, []string{"set cpus: restart", "set maxCpus: restart"}},
		"CPUs where nothing is live":  {func(s *hypervisor.DomainSpec) { s.CPUs = 4 }, hypervisor.HotPlug{}, []string{"set cpus: restart"}},
		"more memory":                 {func(s *hypervisor.DomainSpec) { s.Memory *= 2 }, everything, []string{"set memory: live"}},
		"less memory":                 {func(s *hypervisor.DomainSpec) { s.Memory /= 2 }, everything, []string{"set memory: live"}},
		"less memory without balloon": {func(s *hypervisor.DomainSpec) { s.Memory /= 2 }, hypervisor.HotPlug{Memory: true}, []string{"set memory: restart"}},
		"memory above the maximum":    {func(s *hypervisor.DomainSpec) { s.Memory, s.MaxMemory = 4*resources.GiB, 4*resources.GiB }, everything, []string{"set memory: restart", "set maxMemory: restart"}},
		"less memory and maximum":     {func(s *hypervisor.DomainSpec) { s.Memory, s.MaxMemory = resources.GiB/2, resources.GiB }, everything, []string{"set memory: restart", "set maxMemory: restart"}},
		"firmware":                    {func(s *hypervisor.DomainSpec) { s.Firmware = "uefi" }, everything, []string{"set firmware: restart"}},
		"a disk in place of another": {
			func(s *hypervisor.DomainSpec) { s.Disks[0] = hypervisor.DomainDisk{Name: "data", Path: "/data.qcow2"} }, everything,
			[]string{"detach disk root: live", "attach disk data: live"},
		},
		"another file for a disk": {func(s *hypervisor.DomainSpec) { s.Disks[0].Path = "/other.qcow2" }, everything, []string{"set disk root: restart"}},
		"a CD-ROM that goes":      {func(s *hypervisor.DomainSpec) { s.Disks = s.Disks[:1] }, everything, []string{"detach disk seed: restart"}},
		"an interface elsewhere":  {func(s *hypervisor.DomainSpec) { s.Interfaces[1].Network = "lan" }, everything, []string{"set interface 52:54:00:00:00:02: live"}},
		"an interface that goes":  {func(s *hypervisor.DomainSpec) { s.Interfaces = s.Interfaces[1:] }, everything, []string{"detach interface 52:54:00:00:00:01: live"}},
		"an interface where no device is live": {
			func(s *hypervisor.DomainSpec) { s.Interfaces = s.Interfaces[1:] }, hypervisor.HotPlug{CPUs: true}, []string{"detach interface 52:54:00:00:00:01: restart"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			was, now := running(), running()
			test.change(&now)

			var got []string

			for _, c := range hypervisor.LiveChanges(&was, &now, test.can) {
				got = append(got, c.String()+": "+string(c.Effect))

				if c.Effect == hypervisor.EffectRestart {
					require.NotEmpty(t, c.Reason, "why it needs one")
				}
			}

			require.ElementsMatch(t, test.want, got)
		})
	}
}
