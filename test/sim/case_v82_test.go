package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/api"
	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// scene is a whole gateway on simulated hosts with documents that a test writes.
type scene struct {
	*world

	t *testing.T
}

// inScene plays a scene, in a bubble of virtual time.
func inScene(t *testing.T, play func(s *scene)) {
	t.Helper()

	root := t.TempDir()

	synctest.Test(t, func(t *testing.T) {
		s := &scene{newWorld(t, 1, root), t}

		defer func() {
			if t.Failed() {
				t.Log(s.trace)
			}
		}()

		s.start()
		play(s)
		s.process.end()
		require.NoError(t, s.sim.Close())
		require.Empty(t, s.broken)
		time.Sleep(2 * time.Minute) // whatever was abandoned ends
		synctest.Wait()
	})
}

// declare writes a file and lets it take effect.
func (s *scene) declare(file string, documents ...string) {
	s.t.Helper()
	s.write(file, []byte(strings.Join(documents, "---\n")))
	s.pass(30 * time.Second)
}

func (s *scene) remove(file string) {
	s.t.Helper()
	require.NoError(s.t, os.Remove(filepath.Join(s.root, file)))
	s.pass(30 * time.Second)
}

// delete takes an object away as an operator does, by force.
func (s *scene) delete(kind, name string) api.Deleted {
	s.t.Helper()

	p := s.process
	operations := api.NewOperations(api.SocketOptions{Store: p.store, Admission: p.admission, Pacer: p.pacer, Logger: zap.NewNop()})
	caller := api.NewCaller(resources.Origin{Source: resources.OriginAPI}, nil, "test")

	deleted, err := operations.Delete(s.t.Context(), caller, kind, name, true)
	require.NoError(s.t, err)
	s.pass(30 * time.Second)

	return deleted
}

// found reads a resource; nil where there is none.
func found[R resource.Resource](s *scene, ptr R) (none R) {
	s.t.Helper()

	r, err := safe.StateGet[R](s.t.Context(), s.st(), ptr.Metadata())
	if state.IsNotFoundError(err) {
		return none
	}

	require.NoError(s.t, err)

	return r
}

func (s *scene) status(vm string) resources.VMStatusSpec {
	s.t.Helper()

	r := found(s, resources.NewVMStatus(vm))
	require.NotNil(s.t, r, "VM %s has no status", vm)

	return *r.TypedSpec()
}

func (s *scene) forced(object string) (messages []string) {
	s.t.Helper()

	entries, err := s.process.store.Journal().Query(s.t.Context(), store.Query{Classes: []store.Class{store.ClassForced}, Object: object})
	require.NoError(s.t, err)

	for _, e := range entries {
		messages = append(messages, e.Message)
	}

	return messages
}

func hostDocument(name, more string) string {
	return fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: %s}\nspec: {uri: 'sim://%s'%s}\n", name, name, more)
}

func vmDocument(name, more string) string {
	return fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: %s}\nspec: {memory: 1GiB, shutdown: {grace: 5s}%s}\n", name, more)
}

const (
	lanDocument = "apiVersion: gateway/v1alpha1\nkind: Network\nmetadata: {name: lan}\nspec: {mode: nat, subnet: 10.7.0.0/29, range: [10.7.0.2, 10.7.0.4]}\n"
	onLan       = ", interfaces: [{network: lan}]"
	withDisk    = ", disks: [{name: root, size: 1GiB, onDelete: remove}]"
)

// lose has three VMs on host a, which dies.
func (s *scene) lose() {
	s.t.Helper()
	s.declare("hosts.yaml", hostDocument("a", ""), hostDocument("b", ", schedulable: false"), lanDocument)
	s.declare("web.yaml", vmDocument("web", onLan))
	s.declare("db.yaml", vmDocument("db", onLan+withDisk))
	s.declare("old.yaml", vmDocument("old", onLan+withDisk))

	for _, vm := range []string{"web", "db", "old"} {
		require.Equal(s.t, resources.StateRunning, s.status(vm).State)
		require.Equal(s.t, "a", s.status(vm).Host)
	}

	s.declare("hosts.yaml", hostDocument("a", ""), hostDocument("b", ""), lanDocument)
	s.sim.Host("a").Kill(true)
	s.pass(time.Minute)
}

func domainOf(vm string) string { return hypervisor.DomainUUID(gatewayID, vm) }

func TestCaseV82AHostIsGoneForGood(t *testing.T) {
	t.Run("a deletion waits with a reason, and by force goes on without the host", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.lose()
			s.remove("old.yaml")
			s.pass(time.Hour)

			waits := resources.FindCondition(s.status("old").Conditions, resources.ConditionConverged)
			require.Equal(t, resources.ReasonHostUnreachable, waits.Reason)
			require.Equal(t, "host a is not connected, so nothing is taken apart there; if it is gone for good: gateway delete vm old --force", waits.Message)

			address := found(s, resources.NewNetworkConfig("old")).TypedSpec().Interfaces[0].Address

			s.declare("new.yaml", vmDocument("new", ", placement: {host: b}, interfaces: [{network: lan, address: "+address+"}]"))

			deleted := s.delete("vm", "old")
			require.Equal(t, []string{"domain old (" + domainOf("old") + ") on host a", "volume old.root.qcow2 on host a"}, deleted.Lost)
			require.Nil(t, found(s, resources.NewVMConfig("old")))
			require.Nil(t, found(s, resources.NewNetworkConfig("old")))
			require.NotEmpty(t, s.forced("VM/old"))
			require.Contains(t, s.forced("VM/old")[0], "volume old.root.qcow2 on host a")

			s.sim.Host("a").Revive()
			s.pass(2 * time.Minute)
			require.Equal(t, resources.StateRunning, s.status("new").State)
			require.Equal(t, address, found(s, resources.NewNetworkConfig("new")).TypedSpec().Interfaces[0].Address, "the address is free")
			require.Equal(t, []string{"old (" + domainOf("old") + ", stopped): there is no VM old"}, found(s, resources.NewHostStatus("a")).TypedSpec().Leftovers)

			for _, vm := range []string{"web", "db"} {
				require.Equal(t, "a", s.status(vm).Host, "what was not given up is where it was")
				require.Equal(t, resources.StateRunning, s.status(vm).State)
			}

			// Declared again, it is where its domain and its disk are.
			s.declare("old.yaml", vmDocument("old", withDisk))
			require.Equal(t, "a", s.status("old").Host)
			require.Equal(t, resources.StateRunning, s.status("old").State)
			s.pass(time.Minute)
			require.Empty(t, found(s, resources.NewHostStatus("a")).TypedSpec().Leftovers)
		})
	})

	t.Run("a host that is given up gives its VMs away, and is not trusted when it comes back", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.lose()
			s.pass(time.Hour)

			for _, vm := range []string{"web", "db", "old"} {
				require.Equal(t, "a", s.status(vm).Host, "never by itself")
				require.Equal(t, resources.StateUnknown, s.status(vm).State)
			}

			lost := s.delete("host", "a").Lost
			require.Equal(t, []string{
				"VM db", "domain db (" + domainOf("db") + ") on host a", "volume db.root.qcow2 on host a",
				"VM old", "domain old (" + domainOf("old") + ") on host a", "volume old.root.qcow2 on host a",
				"VM web", "domain web (" + domainOf("web") + ") on host a", "network lan on host a",
			}, lost)
			require.Len(t, s.forced("Host/a"), 1)
			require.Contains(t, s.forced("Host/a")[0], "volume db.root.qcow2 on host a")
			require.Contains(t, s.forced("VM/db")[0], "left behind: domain db")

			require.Nil(t, found(s, resources.NewHost("a")))
			require.Nil(t, found(s, resources.NewHostStatus("a")))
			require.Equal(t, resources.StateRunning, s.status("web").State)
			require.Equal(t, "b", s.status("web").Host)
			require.Equal(t, []string{"domain web (" + domainOf("web") + ") on host a"}, s.status("web").LeftBehind)

			missing := resources.FindCondition(s.status("db").Conditions, resources.ConditionConverged)
			require.Equal(t, resources.ReasonDiskMissing, missing.Reason, "an empty disk is no replacement: %s", missing.Message)
			require.Empty(t, s.sim.Host("b").Volumes())

			// It comes back, with everything on it, and is declared again.
			s.sim.Host("a").Revive()
			s.declare("hosts.yaml", hostDocument("a", ", capacity: {cpus: 64}"), hostDocument("b", ""), lanDocument)
			s.pass(5 * time.Minute)

			require.True(t, found(s, resources.NewHostStatus("a")).TypedSpec().Connected)
			require.Len(t, found(s, resources.NewHostStatus("a")).TypedSpec().Leftovers, 3)
			require.Contains(t, found(s, resources.NewHostStatus("a")).TypedSpec().Leftovers[2], "VM web is on host b")

			for _, vm := range []string{"web", "db", "old"} {
				d, there := s.sim.Host("a").Domain(domainOf(vm))
				require.True(t, there)
				require.Equal(t, resources.StateStopped, d.State, "nobody starts it twice")
			}

			// A VM whose place ends is found where its domain and its disk are.
			s.remove("db.yaml")
			s.declare("db.yaml", vmDocument("db", withDisk))
			s.pass(time.Minute)
			require.Equal(t, "a", s.status("db").Host)
			require.Equal(t, resources.StateRunning, s.status("db").State)
			require.Len(t, found(s, resources.NewHostStatus("a")).TypedSpec().Leftovers, 2)
		})
	})

	t.Run("a host that answers gives nothing up, by force or not", func(t *testing.T) {
		inScene(t, func(s *scene) {
			s.lose()
			s.sim.Host("a").Revive()
			s.pass(2 * time.Minute)

			deleted := s.delete("host", "a")
			require.Empty(t, deleted.Lost)
			require.Equal(t, []string{"db", "old", "web"}, deleted.UsedBy)
			s.pass(time.Hour)

			for _, vm := range []string{"web", "db", "old"} {
				require.Equal(t, "a", s.status(vm).Host)
				require.Equal(t, resources.StateRunning, s.status(vm).State)
			}

			require.True(t, resources.IsLeaving(found(s, resources.NewHost("a")).Metadata()))
		})
	})
}
