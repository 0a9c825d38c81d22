package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// fleet is ten VMs on two networks and two hosts.
type fleet struct {
	*gateway

	random *rand.Rand
	hosts  []*hypervisor
	vms    []*member
	// drained is the host that is drained; -1: none.
	drained int
	guest   *libvirtd.Guest
}

// member is one VM of the fleet, as it is declared.
type member struct {
	name, network, power, disks string
	cpus                        int
	gone                        bool
	// boots reports whether it is a guest that boots and asks for its address: one on each network.
	boots bool
}

const fleetSize = 10

// TestTwoHosts has ten VMs on two hypervisors, which are edited, drained and deleted in random order: at no time is one at two
// places, all converge, those that boot answer wherever they are, and nothing is left.
func TestTwoHosts(t *testing.T) {
	need(t, privateLibvirtd, bootingGuest)

	f := &fleet{
		random: seed(t), gateway: newGateway(t, "resync: 5m"), hosts: []*hypervisor{newHypervisor(t), newHypervisor(t)}, drained: -1,
		guest: libvirtd.NeedGuest(t),
	}
	f.images = append(f.images, filepath.Dir(f.guest.Kernel))

	for i := range fleetSize {
		m := &member{name: fmt.Sprintf("vm-%d", i), network: "lan", power: "running", cpus: 1, boots: i < 2}

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

	f.drain(0)
	f.converged()
	f.drain(-1)
	f.takeAll()
	f.stop()
}

func hostOf(i int) string { return string(rune('a' + i)) }

func (f *fleet) declareHosts() {
	texts := []string{
		document("Network", "lan", "{mode: isolated, subnet: 10.81.0.0/24}"),
		document("Network", "dmz", "{mode: nat, subnet: 10.82.0.0/24}"),
	}

	for i, h := range f.hosts {
		texts = append(texts, h.named(hostOf(i), fmt.Sprintf(", drain: %v", i == f.drained)))
	}

	f.write("infra.yaml", documents(texts...))
}

func (f *fleet) declare(m *member) {
	boot := "memory: 64MiB"
	if m.boots {
		boot = fmt.Sprintf("memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}", f.guest.Kernel, f.guest.Initrd, f.guest.Cmdline)
	}

	f.write(m.name+".yaml", document("VM", m.name, fmt.Sprintf(
		"{%s, cpus: %d, power: %s, shutdown: {grace: 1s}, interfaces: [{network: %s}], disks: [%s]}", boot, m.cpus, m.power, m.network, m.disks)))
}

func (f *fleet) drain(host int) {
	f.drained = host
	f.declareHosts()
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
	case what == 3 && !m.boots: // this guest asks for an address when it boots, and not again
		m.network = map[string]string{"lan": "dmz", "dmz": "lan"}[m.network]
		f.t.Logf("%s is on %s", m.name, m.network)
		f.declare(m)
	default:
		m.cpus = 1 + f.random.IntN(2)
		f.t.Logf("%s has %d CPUs", m.name, m.cpus)
		f.declare(m)
	}

	pause(f.t, time.Duration(f.random.Int64N(int64(700*time.Millisecond))))
}

// never2 requires that no VM runs on both hosts.
func (f *fleet) never2() {
	f.t.Helper()

	first := f.hosts[0].names("list", "--name")
	for _, name := range f.hosts[1].names("list", "--name") {
		require.NotContains(f.t, first, name, "it runs on both hosts")
	}
}

// converged waits until the fleet is what was declared, as `gateway get` and as the hosts show it.
func (f *fleet) converged() {
	f.t.Helper()

	within(f.t, 2*patience, "the fleet is what was declared", func() error {
		objects, err := f.list("VM")
		if err != nil {
			return err
		}

		wanted := 0

		for _, m := range f.vms {
			if m.gone {
				continue
			}

			wanted++

			if err := f.isAsDeclared(m, objects[m.name]); err != nil {
				return err
			}
		}

		if len(objects) != wanted {
			return fmt.Errorf("%d VMs, not %d", len(objects), wanted)
		}

		return f.onHosts(objects)
	})
	f.never2()
	f.answer()
}

// answer waits until the guests that boot answer at the addresses that their status has, where they are.
func (f *fleet) answer() {
	f.t.Helper()

	for _, m := range f.vms {
		if !m.boots || m.gone || m.power != "running" {
			continue
		}

		eventually(f.t, m.name+" answers", func() error {
			o, err := f.get("VM", m.name)
			if err != nil {
				return err
			}

			for _, a := range o.Status.Addresses {
				if a.Source == "lease" {
					return f.hosts[strings.Index("ab", o.Status.Host)].pings(a.Address)
				}
			}

			return fmt.Errorf("%+v", o.Status.Addresses)
		})
	}
}

func (f *fleet) isAsDeclared(m *member, o object) error {
	state, c := o.Status.State, o.Status.condition("Converged")

	switch {
	case state != m.power:
		return fmt.Errorf("%s is %q: %+v", m.name, state, o.Status)
	case o.Status.ObservedRevision != o.Metadata.Revision:
		return fmt.Errorf("%s has not been looked at", m.name)
	case c.Reason != "Converged" && c.Reason != "RestartRequired":
		return fmt.Errorf("%s: %s %s", m.name, c.Reason, c.Message)
	case f.drained >= 0 && m.disks == "" && o.Status.Host == hostOf(f.drained):
		return fmt.Errorf("%s is still on the host that is drained", m.name)
	}

	return nil
}

// onHosts compares with what virsh shows.
func (f *fleet) onHosts(objects map[string]object) error {
	for i, h := range f.hosts {
		var wanted []string

		for name, o := range objects {
			if o.Status.Host == hostOf(i) {
				wanted = append(wanted, name)
			}
		}

		slices.Sort(wanted)

		if domains := h.domains(); !slices.Equal(domains, wanted) {
			return fmt.Errorf("host %s has %s, not %s", hostOf(i), domains, wanted)
		}
	}

	return nil
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

	for i, h := range f.hosts {
		for _, volume := range volumes(t, h) {
			require.True(t, strings.HasPrefix(volume, "vm-4.") || strings.HasPrefix(volume, "vm-9."), "%s is left on host %d", volume, i)
		}
	}

	require.Len(t, slices.Concat(volumes(t, f.hosts[0]), volumes(t, f.hosts[1])), 2, "disks are kept where their document does not say otherwise")
}
