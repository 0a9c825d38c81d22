package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// fleet is guests on two networks and two hosts.
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
	// edition counts how often it was declared: its description, which shows whether a document is taken in.
	edition int
	gone    bool
	// rewired reports whether its network has changed since it last answered: a guest that runs on asks for no new address.
	rewired bool
}

func (m *member) description() string { return fmt.Sprintf("edition %d", m.edition) }

func (m *member) runs() bool { return !m.gone && m.power == "running" }

// subnets are those of the networks.
var subnets = map[string]netip.Prefix{"lan": netip.MustParsePrefix("10.81.0.0/24"), "dmz": netip.MustParsePrefix("10.82.0.0/24")}

// fleetInterval is how often is looked whether a fleet is as it should be.
const fleetInterval = 500 * time.Millisecond

func hostOf(i int) string { return string(rune('a' + i)) }

// at returns the hypervisor that a VM is on; nil: it is on none.
func (f *fleet) at(o object) *hypervisor {
	for i, h := range f.hosts {
		if o.Status.Host == hostOf(i) {
			return h
		}
	}

	return nil
}

func (f *fleet) declareHosts() {
	texts := []string{
		document("Network", "lan", fmt.Sprintf("{mode: isolated, subnet: %s}", subnets["lan"])),
		document("Network", "dmz", fmt.Sprintf("{mode: nat, subnet: %s}", subnets["dmz"])),
	}

	for i, h := range f.hosts {
		texts = append(texts, h.named(hostOf(i), fmt.Sprintf(", drain: %v", i == f.drained)))
	}

	f.write("infra.yaml", documents(texts...))
}

func (f *fleet) declare(m *member) {
	m.edition++
	f.write(m.name+".yaml", document("VM", m.name, fmt.Sprintf("{description: %s, memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, "+
		"cpus: %d, power: %s, shutdown: {grace: 1s}, interfaces: [{network: %s}], disks: [%s]}",
		m.description(), f.guest.Kernel, f.guest.Initrd, f.guest.Cmdline, m.cpus, m.power, m.network, m.disks)))
}

func (f *fleet) drain(host int) {
	f.drained = host
	f.declareHosts()
}

// fuller returns the host that has more of the VMs that can move.
func (f *fleet) fuller() int {
	f.t.Helper()

	objects, err := f.list("VM")
	require.NoError(f.t, err)

	count := map[string]int{}

	for _, m := range f.vms {
		if m.disks == "" {
			count[objects[m.name].Status.Host]++
		}
	}

	if count[hostOf(1)] > count[hostOf(0)] {
		return 1
	}

	return 0
}

// never2 requires that no VM runs on both hosts.
func (f *fleet) never2() {
	f.t.Helper()

	first := f.hosts[0].names("list", "--name")
	second := f.hosts[1].names("list", "--name")
	// One that moved between the two questions is not on the first any more.
	still := f.hosts[0].names("list", "--name")

	for _, name := range second {
		require.False(f.t, slices.Contains(first, name) && slices.Contains(still, name), "%s runs on both hosts", name)
	}
}

// converged waits until the fleet is what was declared, as `gateway get` and as the hosts show it, and until every guest that
// is to run answers.
func (f *fleet) converged() {
	f.t.Helper()

	took := poll(f.t, fleetInterval, 2*patience, "the fleet is what was declared", f.asDeclared)
	f.never2()
	f.reboot()
	answered, guests := f.answer()
	f.t.Logf("the fleet is as declared after %s, and its %d guests answer after another %s", took.Round(time.Second), guests, answered.Round(time.Second))
}

// asDeclared returns nil where the fleet is what was declared.
func (f *fleet) asDeclared() error {
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
}

func (f *fleet) isAsDeclared(m *member, o object) error {
	state, c := o.Status.State, o.Status.condition("Converged")

	switch {
	case o.Spec["description"] != m.description():
		return fmt.Errorf("the document of %s has not been taken in: %v", m.name, o.Spec["description"])
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

// reboot restarts the guests whose network has changed, as an operator does, and waits until they have started again.
func (f *fleet) reboot() {
	f.t.Helper()

	objects, err := f.list("VM")
	require.NoError(f.t, err)

	before := map[string]string{}

	for _, m := range f.vms {
		if m.rewired && m.runs() {
			before[m.name] = f.incarnation(objects[m.name])
			f.cli("restart", m.name)
		}

		m.rewired = false // one that is off asks when it starts
	}

	if len(before) == 0 {
		return
	}

	took := poll(f.t, fleetInterval, 2*patience, "the guests whose network has changed have started again", func() error {
		objects, err := f.list("VM")
		if err != nil {
			return err
		}

		for name, was := range before {
			if now := f.incarnation(objects[name]); now == was || now == "" {
				return fmt.Errorf("%s was domain %q and is %q", name, was, now)
			}
		}

		return f.asDeclared()
	})
	f.t.Logf("the %d guests whose network has changed started again within %s", len(before), took.Round(time.Second))
}

// incarnation is another one with each start of a VM; empty: it does not run.
func (f *fleet) incarnation(o object) string {
	h := f.at(o)
	if h == nil {
		return ""
	}

	id, err := h.Virsh("domid", o.Metadata.Name)
	if err != nil || id == "-" {
		return ""
	}

	return o.Status.Host + id
}

// answer waits until all guests that are to run answer, and returns how long that took and how many they are.
func (f *fleet) answer() (took time.Duration, guests int) {
	f.t.Helper()

	waiting := slices.DeleteFunc(slices.Clone(f.vms), func(m *member) bool { return !m.runs() })
	owners := map[string]string{}

	took = poll(f.t, fleetInterval, 3*patience, "all guests answer", func() error {
		objects, err := f.list("VM")
		if err != nil {
			return err
		}

		var errs []error

		waiting = slices.DeleteFunc(waiting, func(m *member) bool {
			address, err := f.answers(m, objects[m.name])
			errs = append(errs, err)

			if err == nil {
				require.Empty(f.t, owners[address], "%s is on the address of another: %s", m.name, address)
				owners[address] = m.name
			}

			return err == nil
		})

		return errors.Join(errs...)
	})

	return took, len(owners)
}

// answers returns the address that the status of a VM has by DHCP, where it is on the VM's network, and where the VM, and no
// other, answers there.
func (f *fleet) answers(m *member, o object) (string, error) {
	h := f.at(o)
	if h == nil {
		return "", fmt.Errorf("%s is on no host: %+v", m.name, o.Status)
	}

	leased := ""

	for _, a := range o.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err != nil || !subnets[m.network].Contains(address) {
			return "", fmt.Errorf("%s is on %s, and has %s by %s", m.name, m.network, a.Address, a.Source)
		}

		if a.Source == "lease" {
			leased = a.Address
		}
	}

	if leased == "" {
		return "", fmt.Errorf("%s has no lease: %+v", m.name, o.Status.Addresses)
	}

	if err := h.pings(leased); err != nil {
		return "", fmt.Errorf("%s does not answer: %w", m.name, err)
	}

	neighbour, err := h.inNet("ip", "neigh", "show", leased)
	if err != nil {
		return "", err
	}

	// As in "10.81.0.2 dev gw1 lladdr 52:54:00:00:00:01 REACHABLE".
	_, mac, _ := strings.Cut(neighbour, " lladdr ")
	if mac, _, _ = strings.Cut(mac, " "); mac == "" || !strings.Contains(h.virsh("domiflist", m.name), mac) {
		return "", fmt.Errorf("it is not %s that answers at %s, but: %s", m.name, leased, neighbour)
	}

	return leased, nil
}
