package chaintest

import (
	"context"
	"fmt"
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// Pool stands in for hypervisor.Pool and the host controller: the test says which hosts are connected.
type Pool struct {
	world *sim.World

	mu      sync.Mutex // guards the following
	drivers map[string]hypervisor.Driver
	// backs are connections of the test itself, for looking.
	backs map[string]hypervisor.Driver
}

func newPool(world *sim.World) *Pool {
	return &Pool{world: world, drivers: map[string]hypervisor.Driver{}, backs: map[string]hypervisor.Driver{}}
}

// Driver returns the connection to a host.
func (p *Pool) Driver(host string) (hypervisor.Driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if d := p.drivers[host]; d != nil {
		return d, nil
	}

	return nil, fmt.Errorf("host %q is not connected: %w", host, hypervisor.ErrUnreachable)
}

// Admit never refuses anybody: there are no limits here.
func (p *Pool) Admit(string) error { return nil }

func (p *Pool) back(host string) hypervisor.Driver {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.backs[host] == nil {
		p.backs[host] = p.open(host)
	}

	return p.backs[host]
}

func (p *Pool) open(host string) hypervisor.Driver {
	d, err := sim.NewOpener(p.world)(context.Background(), "sim://"+host, GatewayID)
	if err != nil {
		panic(err) // a simulated host without faults accepts everybody
	}

	return d
}

// AddHost declares a host and connects it.
func (g *Rig) AddHost(name string, capacity resources.Capacity, change ...func(*resources.Host)) {
	g.T.Helper()

	h := resources.NewHost(name)
	h.TypedSpec().URI = "sim://" + name
	h.TypedSpec().Overcommit = resources.Overcommit{CPUs: 1, Memory: 1, Disk: 1}

	for _, c := range change {
		c(h)
	}

	g.Create(h)
	g.Connect(name, capacity)
}

// Connect connects a host, which becomes a new generation of its connection.
func (g *Rig) Connect(name string, capacity resources.Capacity) {
	g.T.Helper()

	driver := g.Pool.open(name)

	g.Pool.mu.Lock()
	g.Pool.drivers[name] = driver
	g.Pool.mu.Unlock()

	g.report(name, func(s *resources.HostStatusSpec) {
		s.Connected, s.LastError = true, ""
		s.Generation++

		if capacity != (resources.Capacity{}) {
			s.Capacity = capacity
		}
	})
}

// Disconnect loses the connection to a host.
func (g *Rig) Disconnect(name string) {
	g.T.Helper()

	g.Pool.mu.Lock()
	driver := g.Pool.drivers[name]
	delete(g.Pool.drivers, name)
	g.Pool.mu.Unlock()

	if driver != nil {
		require.NoError(g.T, driver.Close())
	}

	g.report(name, func(s *resources.HostStatusSpec) { s.Connected, s.LastError = false, "connection lost" })
}

// Fail reports a failed attempt to connect.
func (g *Rig) Fail(name string) {
	g.T.Helper()
	g.report(name, func(s *resources.HostStatusSpec) { s.Connected, s.LastError = false, "connection refused" })
}

func (g *Rig) report(name string, change func(*resources.HostStatusSpec)) {
	g.T.Helper()

	ctx := context.Background()
	_, err := g.State().ModifyWithResult(ctx, resources.NewHostStatus(name), func(r resource.Resource) error {
		status, ok := r.(*resources.HostStatus)
		if !ok {
			return fmt.Errorf("HostStatus has the Go type %T", r)
		}

		change(status.TypedSpec())

		return nil
	})
	require.NoError(g.T, err)
}
