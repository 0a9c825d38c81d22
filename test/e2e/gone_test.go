package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCaseV82HostIsGone loses one of two hypervisors for good. Nothing happens until a person says so; then its VM runs on the
// other, and what is left on the first is named when it comes back, and not touched.
func TestCaseV82HostIsGone(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	a, b := newHypervisor(t), newHypervisor(t)
	g := newGateway(t, "resync: 5m")
	g.write("infra.yaml", documents(a.named("a", ""), b.named("b", ", schedulable: false"), document("Network", "lan", "{mode: isolated, subnet: 10.83.0.0/24}")))
	g.write("vm-1.yaml", document("VM", "vm-1", vmOn("lan")))
	g.start()
	g.running("vm-1")

	before := a.identity("vm-1")
	g.write("infra.yaml", documents(a.named("a", ""), b.named("b", ""), document("Network", "lan", "{mode: isolated, subnet: 10.83.0.0/24}")))
	require.NoError(t, a.Kill())
	g.all(t, "a", "unknown", 1)

	_, errs, code := g.run("delete", "host", "a")
	require.Equal(t, 1, code, "a file declares it: %s", errs)
	require.Empty(t, b.domains(), "never by itself")

	_, errs, code = g.run("delete", "host", "a", "--force")
	require.Equal(t, 0, code, errs)
	require.Contains(t, errs, "given up: VM vm-1\n")
	require.Contains(t, errs, "given up: domain vm-1 ("+before.uuid+") on host a\n")
	require.Contains(t, errs, "given up: network lan on host a\n")

	g.running("vm-1")
	require.NoError(t, b.isRunning("vm-1"))
	require.Contains(t, g.cli("why", "host", "a"), "domain vm-1", "the audit")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	require.NoError(t, a.Restart(ctx))
	g.write("infra.yaml", documents(a.named("a", ", overcommit: {cpus: 2}"), b.named("b", ""), document("Network", "lan", "{mode: isolated, subnet: 10.83.0.0/24}")))
	eventually(t, "the host says what is left on it", func() error {
		var host struct {
			Status struct {
				Leftovers []string `json:"leftovers"`
			} `json:"status"`
		}

		out, errs, code := g.run("get", "host", "a", "-o", "json")
		if code != 0 {
			return fmt.Errorf("%s", errs)
		}

		if err := json.Unmarshal([]byte(out), &host); err != nil || len(host.Status.Leftovers) != 1 {
			return fmt.Errorf("%v: %s", err, out)
		}

		return nil
	})
	require.Equal(t, before, a.identity("vm-1"), "it is not touched")

	g.remove("vm-1.yaml")
	g.none("VM")
	emptied(t, b)
	require.Equal(t, before, a.identity("vm-1"))
}

// TestTwoGatewaysShareAHost has two gateways on one hypervisor: each makes, keeps and removes what carries its id.
func TestTwoGatewaysShareAHost(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd)

	h := newHypervisor(t)
	first, second := newGateway(t, "id: one\nresync: 5m"), newGateway(t, "id: two\nresync: 5m")

	for i, g := range []*gateway{first, second} {
		name := fmt.Sprintf("vm-%d", i+1)
		lan := fmt.Sprintf("lan-%d", i+1)

		g.write("host.yaml", documents(h.named("a", ""), document("Network", lan, fmt.Sprintf("{mode: isolated, subnet: 10.84.%d.0/24}", i))))
		g.write(name+".yaml", document("VM", name, fmt.Sprintf(
			"{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: %s}], disks: [{name: root, size: 16MiB, onDelete: remove}]}", lan)))
		g.start()
		g.running(name)
	}

	theirs, network := h.identity("vm-1"), h.virsh("net-dumpxml", "lan-1")

	// The second wants a VM and a network of the names that the first has.
	second.write("vm-1.yaml", documents(document("Network", "lan-1", "{mode: isolated, subnet: 10.85.0.0/24}"),
		document("VM", "vm-1", vmSpec), document("VM", "vm-3", vmOn("lan-1"))))

	for name, want := range map[string]string{"vm-1": "NameTaken", "vm-3": "Waiting"} {
		eventually(t, name+" says what is in its way", func() error {
			o, err := second.get("VM", name)
			if c := o.Status.condition("Converged"); err == nil && c.Reason != want {
				err = fmt.Errorf("%+v", o.Status.Conditions)
			}

			return err
		})
	}

	second.remove("vm-1.yaml")
	second.remove("vm-2.yaml")
	second.none("VM")

	require.Equal(t, theirs, h.identity("vm-1"))
	require.Equal(t, network, h.virsh("net-dumpxml", "lan-1"))
	require.Equal(t, []string{"vm-1"}, h.domains())
	eventually(t, "the network of the second is gone", func() error {
		if n := h.networks(); len(n) != 1 {
			return fmt.Errorf("%s", n)
		}

		return nil
	})
	require.Len(t, volumes(t, h), 1)

	first.remove("vm-1.yaml")
	first.none("VM")
	emptied(t, h)
	require.Empty(t, volumes(t, h))
}
