package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

// TestAGuestAnswersSoon drops a document: within 15 s its VM is running, with an address that answers. The document goes,
// and everything of the VM with it.
func TestAGuestAnswersSoon(t *testing.T) {
	need(t, privateLibvirtd, bootingGuest)

	guest, h, g := withGuest(t)
	// libvirt looks QEMU over at its first use, on every machine once.
	h.virsh("domcapabilities")

	// Another load on the machine would be a measure of that: the best of two counts.
	took := answers(t, g, h, guest)
	if limit := time.Duration(float64(stretched(15*time.Second)) * crowd(t)); took > limit {
		t.Logf("it took %s, not %s", took, limit)

		took = answers(t, g, h, guest)
		require.LessOrEqual(t, took, limit, "from the document to an address that answers")
	}

	t.Logf("it answers %s after its document", took.Round(time.Millisecond))
}

// answers drops a guest's document, returns how long it took until its address answered, and takes everything away again.
func answers(t *testing.T, g *gateway, h *hypervisor, guest *libvirtd.Guest) time.Duration {
	t.Helper()

	g.write("vm-1.yaml", documents(
		document("Network", "lan", "{mode: nat, subnet: 10.86.0.0/24}"),
		document("VM", "vm-1", fmt.Sprintf("{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, interfaces: [{network: lan}], "+
			"disks: [{name: root, size: 16MiB, onDelete: remove}], shutdown: {grace: 50s}}", guest.Kernel, guest.Initrd, guest.Cmdline)),
	))

	took := eventually(t, "the VM is running, and its address answers", func() error {
		o, err := g.get("VM", "vm-1")
		if err != nil || o.Status.State != "running" || len(o.Status.Addresses) == 0 {
			return fmt.Errorf("%v: %+v", err, o.Status)
		}

		return h.pings(o.Status.Addresses[0].Address)
	})

	g.leased(t, "vm-1", "10.86.0.")
	g.remove("vm-1.yaml")
	g.none("VM")
	emptied(t, h)
	require.Empty(t, volumes(t, h))

	return took
}

// power switches a VM on and off again, and returns how long each took.
func (g *gateway) power(name string) (on, off time.Duration) {
	g.t.Helper()

	becomes := func(command, state string) time.Duration {
		begin := time.Now()
		g.cli(command, name)
		within(g.t, patience, name+" is "+state, func() error {
			o, err := g.get("VM", name)
			if err == nil && o.Status.State != state {
				err = fmt.Errorf("it is %q", o.Status.State)
			}

			return err
		})

		return time.Since(begin)
	}

	return becomes("start", "running"), becomes("stop", "stopped")
}

// middle is the median.
func middle(times []time.Duration) time.Duration {
	slices.Sort(times)

	return times[len(times)/2]
}

// TestAStuckGuestDelaysNobody stops the QEMU process of one VM, so that every call that needs it hangs. The other VMs of its host
// start and stop as fast as ever.
func TestAStuckGuestDelaysNobody(t *testing.T) {
	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "resync: 5m")
	g.write("host.yaml", h.host())
	g.write("vm-stuck.yaml", document("VM", "vm-stuck", vmSpec))

	others := []string{"vm-1", "vm-2", "vm-3"}
	for _, name := range others {
		g.write(name+".yaml", document("VM", name, "{memory: 64MiB, power: stopped, shutdown: {grace: 1s}}"))
	}

	g.start()
	g.running("vm-stuck")

	measure := func() (on, off time.Duration) {
		var ons, offs []time.Duration

		for _, name := range others {
			a, b := g.power(name)
			ons, offs = append(ons, a), append(offs, b)
		}

		return middle(ons), middle(offs)
	}

	g.power(others[0]) // the first start of all is no measure
	usualOn, usualOff := measure()

	var pid int

	_, err := fmt.Sscan(h.identity("vm-stuck").pid, &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))

	defer func() { require.NoError(t, syscall.Kill(pid, syscall.SIGCONT)) }()

	// Several calls for it hang: a change of its size, a stop, and looks at it.
	g.write("vm-stuck.yaml", document("VM", "vm-stuck", "{memory: 64MiB, cpus: 2, power: stopped, shutdown: {grace: 1s}}"))

	for range 5 {
		g.cli("sync", "VM", "-l", "{}")
	}

	var on, off time.Duration

	// Another load on the machine would be a measure of that: the best of three counts.
	for range 3 {
		if on, off = measure(); on <= usualOn*3/2 && off <= usualOff*3/2 {
			break
		}
	}

	t.Logf("start %s, usually %s; stop %s, usually %s", on, usualOn, off, usualOff)
	require.LessOrEqual(t, on, usualOn*3/2, "a start")
	require.LessOrEqual(t, off, usualOff*3/2, "a stop")
}
