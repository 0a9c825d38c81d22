package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// farm is a gateway on two simulated hosts that keep their domains whatever becomes of the gateway.
type farm struct {
	*gateway
	a, b *simHost
}

func newFarm(t *testing.T, config string) *farm {
	t.Helper()

	f := &farm{gateway: newGateway(t, config), a: newSimHost(t), b: newSimHost(t)}
	f.hosts(false)

	return f
}

// hosts writes the documents of both hosts and of a network; drained takes the VMs off the first one.
func (f *farm) hosts(drained bool) {
	f.t.Helper()

	host := func(name string, h *simHost, drain bool) string {
		return document("Host", name, fmt.Sprintf("{uri: %q, drain: %v}", "sim://"+name+"?shutdown=10ms&state="+h.file, drain))
	}
	f.write("hosts.yaml", documents(host("a", f.a, drained), host("b", f.b, false),
		document("Network", "lan", "{mode: isolated, subnet: 10.77.0.0/24}"), f.githubHook("deploy", "")))
}

// vm declares a VM on the network.
func (f *farm) vm(name string) {
	f.t.Helper()
	f.write(name+".yaml", document("VM", name, "{memory: 64MiB, interfaces: [{network: lan}], shutdown: {grace: 1s}}"))
}

// on waits until a VM runs and has converged on a host.
func (f *farm) on(name, host string) {
	f.t.Helper()

	eventually(f.t, name+" has converged on "+host, func() error {
		o, err := f.get("VM", name)
		if err == nil && (o.Status.Host != host || o.Status.State != "running" || o.Status.condition("Converged").Reason != "Converged") {
			err = fmt.Errorf("it is %+v", o.Status)
		}

		return err
	})
}

// done is what was done to domains and networks of both hosts.
func (f *farm) done(t *testing.T) [2]history {
	t.Helper()

	return [2]history{f.a.history(t), f.b.history(t)}
}

// untouched requires that none of the domains that there were has been started, stopped or removed since, and that no network went.
func (f *farm) untouched(t *testing.T, before [2]history) {
	t.Helper()

	for i, now := range f.done(t) {
		for uuid := range before[i].starts {
			require.Equal(t, before[i].starts[uuid], now.starts[uuid], "starts of %s", uuid)
			require.Equal(t, before[i].stops[uuid], now.stops[uuid], "stops of %s", uuid)
			require.Equal(t, before[i].gone[uuid], now.gone[uuid], "removals of %s", uuid)
		}

		for name, uuids := range before[i].uuids {
			require.Equal(t, uuids, now.uuids[name], "domains of %s", name)
		}

		require.Equal(t, before[i].networkGone, now.networkGone, "networks that were removed")
	}
}

// works requires that a VM that comes runs, and goes: by then, the others were looked at.
func (f *farm) works() {
	f.t.Helper()
	f.write("probe.yaml", document("VM", "probe", "{shutdown: {grace: 1s}}"))
	f.running("probe")
	f.remove("probe.yaml")
	f.without("probe")
}

// store runs `gateway store` on the data directory.
func (g *gateway) store(command string, args ...string) (stdout, stderr string, code int) {
	g.t.Helper()

	return g.run(append([]string{"store", command, "--data-dir", g.path("data")}, args...)...)
}

func (g *gateway) mustStore(command string, args ...string) {
	g.t.Helper()

	out, errs, code := g.store(command, args...)
	require.Equal(g.t, 0, code, "gateway store %s %v: %s%s", command, args, out, errs)
}

// TestRestore restores a backup that is older than what the hypervisors have: the gateway finds each VM where it is by now, and touches
// none.
func TestRestore(t *testing.T) {
	t.Parallel() // it mostly waits

	f := newFarm(t, "")
	f.vm("stays")
	f.vm("moves")
	f.vm("goes")
	f.start()
	f.running("stays", "moves", "goes")

	where, err := f.get("VM", "moves")
	require.NoError(t, err)

	backup := f.path("backup")
	f.mustStore("backup", backup)

	info, err := os.Stat(backup)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	// The world goes on: one VM goes, one comes, and those on the first host move to the second.
	f.remove("goes.yaml")
	f.without("goes")
	f.vm("comes")
	f.running("comes")
	f.hosts(true)
	f.on("moves", "b")
	f.on("stays", "b")
	f.hosts(false)

	before := f.done(t)
	addresses := f.addresses("stays", "moves")

	f.kill()

	for _, name := range []string{"store.db", "store.log.0", "store.log.1", "id"} {
		require.NoError(t, os.Remove(filepath.Join(f.path("data"), name)))
	}

	f.mustStore("restore", backup)
	f.mustStore("check")
	f.start()
	f.on("stays", "b")
	f.on("moves", "b")
	f.running("comes")
	f.without("goes")
	f.works()
	f.untouched(t, before)
	require.Equal(t, addresses, f.addresses("stays", "moves"))
	t.Logf("moves was on %s", where.Status.Host)

	// And it works on as ever.
	f.remove("moves.yaml")
	f.without("moves")

	moved := f.b.history(t)
	for uuid := range moved.uuids["moves"] {
		require.Equal(t, 1, moved.gone[uuid])
	}

	f.stop()
}

// addresses are those that the networks gave out, by VM.
func (g *gateway) addresses(vms ...string) map[string]string {
	g.t.Helper()

	all := map[string]string{}

	for _, vm := range vms {
		eventually(g.t, vm+" has an address", func() error {
			o, err := g.get("VM", vm)
			if err == nil && len(o.Status.Addresses) == 0 {
				err = errors.New("it has none")
			}

			all[vm] = fmt.Sprint(o.Status.Addresses)

			return err
		})
	}

	return all
}

// without waits until a VM is gone.
func (g *gateway) without(vm string) {
	g.t.Helper()
	g.cli("wait", "vm", vm, "--for", "delete", "--timeout", "60s")
}

// TestRestoreWaitsForHosts restores while the host can't be reached on which a VM may be by now: nothing is started elsewhere, and a
// VM that is deleted meanwhile is deleted where it is, once that is known.
func TestRestoreWaitsForHosts(t *testing.T) {
	t.Parallel() // it mostly waits

	f := newFarm(t, "")
	f.vm("stays")
	f.vm("goes")
	f.start()
	f.running("stays", "goes")
	f.mustStore("backup", f.path("backup"))
	f.hosts(true)
	f.on("stays", "b")
	f.on("goes", "b")
	f.hosts(false)
	f.stop()

	before := f.done(t)
	hidden := f.b.file + ".away"

	// A simulated host whose file can't be opened is one that can't be reached.
	require.NoError(t, os.Rename(f.b.file, hidden))
	require.NoError(t, os.Mkdir(f.b.file, 0o700))

	f.mustStore("restore", "--force", f.path("backup"))
	f.start()
	f.remove("goes.yaml")

	eventually(t, "it is said that host b has to be asked first", func() error {
		o, err := f.get("VM", "stays")
		if err == nil && o.Status.condition("Placed").Reason != "HostUnreachable" {
			err = fmt.Errorf("%+v", o.Status)
		}

		return err
	})
	require.Equal(t, before[0], f.a.history(t))

	require.NoError(t, os.Remove(f.b.file))
	require.NoError(t, os.Rename(hidden, f.b.file))
	f.on("stays", "b")
	f.without("goes")

	after := f.b.history(t)
	require.Equal(t, before[1].starts, after.starts)
	require.Len(t, after.gone, len(before[1].gone)+1)
	require.Equal(t, before[0], f.a.history(t))
	require.NoError(t, syscall.Kill(f.pid(), 0))
	f.stop()
}
