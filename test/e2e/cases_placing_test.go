package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// placed counts the VMs that are placed and defined, and returns what the others say of where they could be.
func (g *gateway) placed(t *testing.T) (n int, refusals []string) {
	t.Helper()

	objects, err := g.list("VM")
	require.NoError(t, err)

	for _, o := range objects {
		switch c := o.Status.condition("Placed"); {
		case isTrue(c) && o.Status.State == "stopped":
			n++
		case !isTrue(c) && c.Reason == "Unschedulable":
			refusals = append(refusals, c.Message)
		}
	}

	return n, refusals
}

// TestCaseV25RoomForFourOnQEMU has ten VMs at once where the host has CPUs for four.
func TestCaseV25RoomForFourOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	g.write("host.yaml", document("Host", "a", fmt.Sprintf("{uri: %q, capacity: {cpus: 4, memory: 1TiB}, overcommit: {cpus: 1}}", h.URI())))

	texts := make([]string, 10)
	for i := range texts {
		texts[i] = document("VM", fmt.Sprintf("vm-%d", i), "{memory: 64MiB, power: stopped}")
	}

	g.write("vms.yaml", documents(texts...))
	g.start()
	eventually(t, "four are defined, and six say what is short, and where", func() error {
		n, refusals := g.placed(t)
		if n != 4 || len(refusals) != 6 {
			return fmt.Errorf("%d, %q", n, refusals)
		}

		return nil
	})

	_, refusals := g.placed(t)
	for _, r := range refusals {
		require.Equal(t, "host a: 0 of 4 CPUs free, 1 needed", r)
	}

	require.Len(t, h.domains(), 4)
	g.stop()
}

// TestCaseV26EveryHostIsTakenOnQEMU has three VMs that must be apart, on two hosts: the third is placed when one of the others goes.
func TestCaseV26EveryHostIsTakenOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	hosts := []*hypervisor{newHypervisor(t), newHypervisor(t)}
	g := newGateway(t, "")
	g.write("hosts.yaml", documents(hosts[0].named("a", ""), hosts[1].named("b", "")))
	g.start()

	apart := func(name string) string {
		return strings.Replace(document("VM", name, "{memory: 64MiB, power: stopped, placement: {apart: {tier: web}}}"), "name: "+name, "name: "+name+", labels: {tier: web}", 1)
	}

	for i := range 3 {
		name := fmt.Sprintf("web-%d", i)
		g.write(name+".yaml", apart(name))

		if i < 2 {
			g.reason(t, name, "Converged")
		}
	}

	eventually(t, "the third has no host, and says why of each", func() error {
		_, refusals := g.placed(t)
		if text := strings.Join(refusals, ""); !strings.Contains(text, "host a: has VM web-") || !strings.Contains(text, "host b: has VM web-") {
			return fmt.Errorf("%q", refusals)
		}

		return nil
	})
	require.Len(t, hosts[0].domains(), 1)
	require.Len(t, hosts[1].domains(), 1)

	g.remove("web-0.yaml")
	g.reason(t, "web-2", "Converged")
	require.ElementsMatch(t, []string{"web-1", "web-2"}, append(hosts[0].domains(), hosts[1].domains()...))
	require.Len(t, hosts[0].domains(), 1)
	g.stop()
}

// TestCaseV83AProtectedVMStaysOnQEMU wants to delete a VM that is protected: by a command, by force, and by taking its document away.
func TestCaseV83AProtectedVMStaysOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	g.write("host.yaml", h.host())
	g.write("vm.yaml", document("VM", "precious", strings.Replace(vmSpec, "{", "{protect: true, ", 1)))
	g.start()
	g.running("precious")

	before := h.identity("precious")

	for _, args := range [][]string{{"delete", "VM", "precious"}, {"delete", "VM", "precious", "--force"}} {
		_, errs, code := g.run(args...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "spec.protect", args)
	}

	g.remove("vm.yaml")
	eventually(t, "that it is not removed is noted", func() error {
		if out := g.cli("why", "VM", "precious"); !strings.Contains(out, "not removed") {
			return fmt.Errorf("%s", out)
		}

		return nil
	})
	require.Equal(t, before, h.identity("precious"))

	g.write("vm.yaml", document("VM", "precious", vmSpec))
	eventually(t, "it is protected no longer", func() error {
		if out := g.cli("get", "VM", "precious", "-o", "yaml"); strings.Contains(out, "protect: true") {
			return fmt.Errorf("%s", out)
		}

		return nil
	})
	require.Equal(t, before, h.identity("precious"))
	g.remove("vm.yaml")
	h.gone(t, []string{"precious"}, nil)
	g.stop()
}

// TestCaseV1ARenameOnQEMU renames a VM in its file: the new one has disks of its own, and of the old one's what is to stay stays.
func TestCaseV1ARenameOnQEMU(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	g := newGateway(t, "")
	g.write("host.yaml", h.host())

	const spec = "{memory: 64MiB, shutdown: {grace: 1s}, disks: [{name: root, size: 16MiB}, {name: scratch, size: 16MiB, onDelete: remove}]}"

	g.write("vm.yaml", document("VM", "before", spec))
	g.start()
	g.running("before")

	inode := inodeOf(t, volumeFile(t, h, "before.root.qcow2"))

	g.write("vm.yaml", document("VM", "after", spec))
	g.running("after")
	h.gone(t, []string{"before"}, nil)
	g.without("before")
	require.ElementsMatch(t, []string{"before.root.qcow2", "after.root.qcow2", "after.scratch.qcow2"}, volumes(t, h))
	require.Equal(t, inode, inodeOf(t, volumeFile(t, h, "before.root.qcow2")))
	g.stop()
}
