// Package apitest serves an operators' socket on a state in memory, without controllers: for tests of package api and of what
// speaks to it.
package apitest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"gateway/api"
	"gateway/api/client"
	"gateway/config"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// World is a socket with what is behind it.
type World struct {
	Store     store.Store
	Admission *store.Admission
	State     state.State
	Client    *client.Client
	// Path of the socket.
	Path string
	// Sim has the hosts that Host made, Hosts the connections to them.
	Sim   *sim.World
	Hosts Hosts

	t    *testing.T
	dir  string
	stop func()
}

// File is the origin of what Declare declares.
var File = resources.Origin{Source: resources.OriginFile, Name: "/etc/gateway/documents.d/web.yaml", Root: "/etc/gateway/documents.d"}

// Start serves a socket on a state in memory until the test ends.
func Start(t *testing.T) *World {
	t.Helper()

	return StartOn(t, store.NewMemory("test"))
}

// StartOn is Start on a store, which outlives it.
func StartOn(t *testing.T, s store.Store) *World {
	t.Helper()

	// The test's own temporary directory has a path that may be too long for a socket.
	dir, err := os.MkdirTemp("", "gw")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	t.Setenv("RUNTIME_DIRECTORY", "")

	w := &World{Store: s, Sim: sim.NewWorld(), Hosts: Hosts{}, t: t, dir: dir, Path: filepath.Join(dir, api.SocketName)}
	w.State = w.Store.State()
	w.Admission = store.NewAdmission(config.Default().Policy, w.Store.Journal())

	w.Serve()
	t.Cleanup(func() { w.Stop() })

	w.Client, err = client.New("unix://" + w.Path)
	require.NoError(t, err)
	t.Cleanup(w.Client.Close)
	t.Cleanup(func() { require.NoError(t, w.Sim.Close()) })

	return w
}

// Serve starts the socket, again after Stop.
func (w *World) Serve() {
	w.t.Helper()

	socket, err := api.ListenSocket(api.SocketOptions{
		DataDir: w.dir, Store: w.Store, Admission: w.Admission, Pacer: store.NewPacer(0), Documents: []string{File.Root}, Version: "v1.2.3",
		Logger: zaptest.NewLogger(w.t), Hypervisors: w.Hosts,
	})
	require.NoError(w.t, err)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)

	go func() { done <- socket.Run(ctx) }()

	w.stop = func() {
		cancel()
		require.NoError(w.t, <-done)
		require.NoError(w.t, socket.Close())
	}
}

// Hosts are the hosts that the operations can ask.
type Hosts map[string]hypervisor.Driver

// Driver implements api.Hypervisors.
func (h Hosts) Driver(host string) (hypervisor.Driver, error) {
	if d := h[host]; d != nil {
		return d, nil
	}

	return nil, fmt.Errorf("host %q: %w: it is away", host, hypervisor.ErrUnreachable)
}

// Host declares a host, and connects it to a simulated one of its name.
func (w *World) Host(name string) *sim.Host {
	w.t.Helper()

	host := resources.NewHost(name)
	host.TypedSpec().URI = "sim://" + name
	w.Declare(host)

	driver, err := sim.NewOpener(w.Sim)(w.t.Context(), host.TypedSpec().URI, w.Store.GatewayID())
	require.NoError(w.t, err)

	w.Hosts[name] = driver

	return w.Sim.Host(name)
}

// Stop ends the socket; watches end with it.
func (w *World) Stop() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// Declare declares an object as a file does.
func (w *World) Declare(r resource.Resource) {
	w.t.Helper()

	_, err := w.Admission.Apply(w.t.Context(), owned.New(w.State, ""), store.Change{Object: r, Origin: File, Cause: "test"})
	require.NoError(w.t, err)
}

// VM declares a VM as a file does.
func (w *World) VM(name string, labels map[string]string) {
	w.t.Helper()

	vm := resources.NewVMConfig(name)
	resources.SetLabels(vm.Metadata(), labels)
	w.Declare(vm)
}

// Observe writes the status of a VM.
func (w *World) Observe(name string, change func(*resources.VMStatusSpec)) {
	w.t.Helper()

	err := owned.New(w.State, resources.ControllerVM).Modify(w.t.Context(), resources.NewVMStatus(name), func(r resource.Resource) error {
		change(r.Spec().(*resources.VMStatusSpec)) //nolint:forcetypeassert // one type a kind

		return nil
	})
	require.NoError(w.t, err)
}
