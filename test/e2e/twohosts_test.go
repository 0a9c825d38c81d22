package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// TestTwoHosts has ten VMs on two hypervisors, which are edited, drained and deleted in random order: at no time is one at two
// places, all converge, every guest that is to run answers at the address that its status has, wherever it is, and nothing is left.
func TestTwoHosts(t *testing.T) {
	need(t, privateLibvirtd, bootingGuest)

	f := newFleet(t)
	f.declareHosts()

	for _, m := range f.vms {
		f.declare(m)
	}

	f.start()
	f.converged()

	for range 3 {
		for range 6 {
			f.act()
			f.never2()
		}

		f.converged()
	}

	// All ten are to run in the end, and most of those that can move have to.
	f.drain(f.fuller())

	for _, m := range f.vms {
		m.gone, m.power = false, "running"
		f.declare(m)
	}

	f.converged()
	f.drain(-1)
	f.takeAll()
	f.stop()
}

const fleetSize = 10

// newFleet prepares two hypervisors, a gateway, and ten VMs, of which four have a disk: two of them one that goes with its VM.
func newFleet(t *testing.T) *fleet {
	t.Helper()

	f := &fleet{
		random: seed(t), gateway: newGateway(t, "resync: 5m"), hosts: []*hypervisor{newHypervisor(t), newHypervisor(t)}, drained: -1,
		guest: libvirtd.NeedGuest(t),
	}
	f.images = append(f.images, filepath.Dir(f.guest.Kernel))

	for i := range fleetSize {
		m := &member{name: fmt.Sprintf("vm-%d", i), network: "lan", power: "running", cpus: 1}

		switch i % 5 {
		case 3:
			m.disks = "{name: root, size: 16MiB, onDelete: remove}"
		case 4:
			m.disks = "{name: root, size: 16MiB}"
		}

		if i%2 == 1 {
			m.network = "dmz"
		}

		f.vms = append(f.vms, m)
	}

	return f
}

// act does one thing to the fleet.
func (f *fleet) act() {
	m := f.vms[f.random.IntN(len(f.vms))]

	switch what := f.random.IntN(6); {
	case m.gone:
		m.gone = false
		f.t.Logf("%s is declared again", m.name)
		f.declare(m)
	case what == 0 && m.disks == "": // one with a kept disk would find it again on one host only
		m.gone = true
		f.t.Logf("%s is deleted", m.name)
		f.remove(m.name + ".yaml")
	case what == 1:
		f.drain(f.random.IntN(3) - 1)
		f.t.Logf("host %d is drained", f.drained)
	case what == 2:
		m.power = map[string]string{"running": "stopped", "stopped": "running"}[m.power]
		f.t.Logf("%s is %s", m.name, m.power)
		f.declare(m)
	case what == 3:
		m.network = map[string]string{"lan": "dmz", "dmz": "lan"}[m.network]
		m.rewired = true
		f.t.Logf("%s is on %s", m.name, m.network)
		f.declare(m)
	default:
		m.cpus = 1 + f.random.IntN(2)
		f.t.Logf("%s has %d CPUs", m.name, m.cpus)
		f.declare(m)
	}

	pause(f.t, time.Duration(f.random.Int64N(int64(700*time.Millisecond))))
}

// takeAll deletes everything, in random order.
func (f *fleet) takeAll() {
	t := f.t
	f.random.Shuffle(len(f.vms), func(i, j int) { f.vms[i], f.vms[j] = f.vms[j], f.vms[i] })

	for _, m := range f.vms {
		if !m.gone {
			f.remove(m.name + ".yaml")
			pause(t, time.Duration(f.random.Int64N(int64(300*time.Millisecond))))
		}
	}

	f.none("VM")
	emptied(t, f.hosts...)

	var kept []string

	for _, h := range f.hosts {
		kept = append(kept, volumes(t, h)...)
	}

	require.Len(t, kept, 2, "disks are kept where their document does not say otherwise")

	for _, volume := range kept {
		require.True(t, strings.HasPrefix(volume, "vm-4.") || strings.HasPrefix(volume, "vm-9."), "%s is left", volume)
	}
}
