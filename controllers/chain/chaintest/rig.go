package chaintest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/generic/destroy"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/controller/runtime/options"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/store"
)

// GatewayID marks what the controllers under test make.
const GatewayID = "test-gateway"

// Rig is a runtime with controllers, built again by Rebuild, on a state and hosts that stay.
type Rig struct {
	T     *testing.T
	Store store.Store
	World *sim.World
	Pool  *Pool

	build  func(*Rig) []controller.QController
	cancel context.CancelFunc
	done   chan error
}

// New starts the controllers that build makes, and COSI's destroy controllers for VMs, hosts, networks and images. All ends with the test.
func New(t *testing.T, build func(*Rig) []controller.QController) *Rig {
	t.Helper()

	world := sim.NewWorld()
	g := &Rig{T: t, Store: store.NewMemory(GatewayID), World: world, Pool: newPool(world), build: build}
	g.Start()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, world.Close())
	})

	return g
}

// Start builds the controllers and runs them.
func (g *Rig) Start() {
	g.T.Helper()

	rt, err := runtime.NewRuntime(g.State(), zap.NewNop(), options.WithMetrics(false))
	require.NoError(g.T, err)

	for _, ctrl := range g.build(g) {
		require.NoError(g.T, rt.RegisterQController(ctrl))
	}

	for _, name := range []string{"VM", "Host", "Network", "Image"} {
		kind, _ := resources.KindByName(name)
		require.NoError(g.T, rt.RegisterQController(destroy.NewControllerForResource(kind.Definition(), optional.Some[uint](4))))
	}

	ctx, cancel := context.WithCancel(context.Background())
	g.cancel, g.done = cancel, make(chan error, 1)

	go func() { g.done <- rt.Run(ctx) }()
}

// Stop ends the runtime and waits for it. It may be called twice.
func (g *Rig) Stop() {
	if g.cancel == nil {
		return
	}

	g.cancel()
	require.NoError(g.T, <-g.done)

	g.cancel = nil
}

// Rebuild stops the runtime and starts one with new controllers.
func (g *Rig) Rebuild() {
	g.T.Helper()
	g.Stop()
	g.Start()
}

// State is the state that the controllers share.
func (g *Rig) State() state.State { return g.Store.State() }

// Settle returns when nothing happens any more until time passes.
func (g *Rig) Settle() { synctest.Wait() }

// Pass lets virtual time pass, with all that happens in it.
func (g *Rig) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Create creates a declared object, and waits until everything has come to rest.
func (g *Rig) Create(r resource.Resource) {
	g.T.Helper()
	resources.SetRevision(r.Metadata(), 1)
	require.NoError(g.T, g.State().Create(context.Background(), r))
}

// Delete begins the teardown of a declared object.
func (g *Rig) Delete(r resource.Pointer) {
	g.T.Helper()

	_, err := g.State().Teardown(context.Background(), r)
	require.NoError(g.T, err)
}

// Edit changes a resource, and raises its revision.
func Edit[R resource.Resource](g *Rig, r R, change func(R)) {
	g.T.Helper()

	_, err := g.State().UpdateWithConflicts(context.Background(), r.Metadata(), func(found resource.Resource) error {
		typed, ok := found.(R)
		if !ok {
			return fmt.Errorf("%s has the Go type %T", r.Metadata(), found)
		}

		change(typed)
		resources.SetRevision(typed.Metadata(), resources.RevisionOf(typed.Metadata())+1)

		return nil
	})
	require.NoError(g.T, err)
}

// Get reads a resource; nil where there is none.
func Get[R resource.Resource](g *Rig, r R) R {
	g.T.Helper()

	var none R

	found, err := g.State().Get(context.Background(), r.Metadata())
	if state.IsNotFoundError(err) {
		return none
	}

	require.NoError(g.T, err)

	typed, ok := found.(R)
	require.True(g.T, ok)

	return typed
}

// List reads all resources of the kind of r.
func List[R resource.Resource](g *Rig, r R) []R {
	g.T.Helper()

	list, err := g.State().List(context.Background(), r.Metadata())
	require.NoError(g.T, err)

	all := make([]R, 0, len(list.Items))

	for _, item := range list.Items {
		typed, ok := item.(R)
		require.True(g.T, ok)

		all = append(all, typed)
	}

	return all
}

// Left returns what is left of the kinds that have to be gone when everything was deleted, with its phase and finalizers.
func (g *Rig) Left() []string {
	g.T.Helper()

	var left []string

	for _, name := range []string{"VM", "VMPlacement", "NetworkConfig", "VMStatus", "Host", "Network", "NetworkStatus", "Image", "ImageStatus"} {
		kind, _ := resources.KindByName(name)

		list, err := g.State().List(context.Background(), kind.List())
		require.NoError(g.T, err)

		for _, item := range list.Items {
			md := item.Metadata()
			left = append(left, fmt.Sprintf("%s/%s %s [%s]", name, md.ID(), md.Phase(), strings.Join(*md.Finalizers(), " ")))
		}
	}

	return left
}

// Networks returns the networks of a host, with their entries as MAC=address.
func (g *Rig) Networks(host string) map[string][]string {
	g.T.Helper()

	driver := g.Pool.back(host)

	all, err := driver.Networks(context.Background())
	require.NoError(g.T, err)

	found := map[string][]string{}

	for _, n := range all {
		found[n.Name] = []string{}
		for _, h := range n.Hosts {
			found[n.Name] = append(found[n.Name], h.MAC+"="+h.Address)
		}

		slices.Sort(found[n.Name])
	}

	return found
}
