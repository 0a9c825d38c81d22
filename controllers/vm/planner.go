package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor"
	"gateway/resources"
)

// Planner says what the controller would do to the domain of a VM that is declared otherwise. It reads, and changes nothing.
type Planner struct {
	state      state.State
	controller *Controller
}

// NewPlanner returns a planner for the VMs of a state.
func NewPlanner(st state.State, pool Pool, gatewayID string) *Planner {
	return &Planner{state: st, controller: &Controller{options: Options{Pool: pool, GatewayID: gatewayID}}}
}

// PlanVM returns the host that the VM is on, empty where it is on none, and what would be done to its domain there to make
// it what desired asks for. The error wraps hypervisor.ErrUnreachable where the host can't be asked.
func (pl *Planner) PlanVM(ctx context.Context, desired *resources.VMConfig) (host string, plan hypervisor.DomainPlan, err error) {
	p, err := pl.pass(ctx, desired)
	if err != nil {
		return "", plan, err
	}

	if host = p.host(); host == "" {
		return "", plan, nil
	}

	if p.driver, err = pl.controller.options.Pool.Driver(host); err != nil {
		return host, plan, fmt.Errorf("error finding the connection to host %q: %w", host, err)
	}

	found, err := p.lookUp(ctx)
	if err != nil {
		return host, plan, err
	}

	if found != nil && !p.isOurs(found) && !p.mayAdopt(found) {
		return host, hypervisor.DomainPlan{Exists: true, Foreign: true, Observed: *found}, nil
	}

	p.domain = found
	if found == nil {
		return host, plan, nil
	}

	p.guessDisks()

	if err := pl.guessNetwork(ctx, p); err != nil {
		return host, plan, err
	}

	pl.guessSeed(p)

	plan, err = p.driver.PlanDomain(ctx, p.domainSpec())

	return host, plan, err
}

// pass reads what a pass of the VM would.
func (pl *Planner) pass(ctx context.Context, desired *resources.VMConfig) (*pass, error) {
	id := desired.Metadata().ID()
	p := &pass{
		c: pl.controller, id: id, now: time.Now().UTC(), tick: time.Now(), config: desired, spec: desired.TypedSpec(), disks: map[string]string{},
	}

	return p, errors.Join(
		read(ctx, pl.state, resources.NewVMPlacement(id), &p.placement),
		read(ctx, pl.state, resources.NewNetworkConfig(id), &p.network),
		read(ctx, pl.state, resources.NewVMStatus(id), &p.current),
		pl.begin(ctx, p),
	)
}

// begin starts from the status that there is, and from the override that is in force.
func (pl *Planner) begin(ctx context.Context, p *pass) error {
	if err := read(ctx, pl.state, resources.NewOverride(p.id), &p.override); err != nil {
		return err
	}

	p.beginStatus()

	return nil
}

// read reads a resource; where there is none, into stays nil.
func read[R resource.Resource](ctx context.Context, st state.State, ptr R, into *R) error {
	found, err := safe.StateGet[R](ctx, st, ptr.Metadata())
	if state.IsNotFoundError(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("error reading %s: %w", ptr.Metadata(), err)
	}

	*into = found

	return nil
}

// guessDisks finds the paths of the volumes: those that the domain has, and names for those that will be made.
func (p *pass) guessDisks() {
	for i := range p.spec.Disks {
		d := &p.spec.Disks[i]
		if !isVolume(d) {
			continue
		}

		p.disks[d.Name] = volumeName(p.id, d.Name)

		for _, has := range p.domain.Spec.Disks {
			if has.Name == d.Name {
				p.disks[d.Name] = has.Path
			}
		}
	}
}

// guessSeed leaves the seed as it is: that a guest reads another one when it boots is told by the document alone.
func (pl *Planner) guessSeed(p *pass) {
	if p.spec.CloudInit == nil {
		return
	}

	p.disks[hypervisor.SeedDisk] = hypervisor.SeedName(p.id, "new")

	for _, has := range p.domain.Spec.Disks {
		if has.Name == hypervisor.SeedDisk {
			p.disks[hypervisor.SeedDisk] = has.Path
		}
	}
}

// guessNetwork finds what the interfaces will be plugged into: what they have, or what the network controller would give
// them. An address that it would choose anew does not matter to the domain.
func (pl *Planner) guessNetwork(ctx context.Context, p *pass) error {
	var prior []resources.NetworkBinding
	if p.network != nil {
		prior = slices.Clone(p.network.TypedSpec().Interfaces)
	}

	guessed := resources.NewNetworkConfig(p.id)
	guessed.TypedSpec().Host = p.host()

	for index, i := range p.spec.Interfaces {
		at := slices.IndexFunc(prior, func(b resources.NetworkBinding) bool {
			return b.Network == i.Network && (i.MAC == "" || strings.EqualFold(i.MAC, b.MAC))
		})

		if at >= 0 {
			guessed.TypedSpec().Interfaces = append(guessed.TypedSpec().Interfaces, prior[at])
			prior = slices.Delete(prior, at, at+1)

			continue
		}

		binding := resources.NetworkBinding{Network: i.Network, LibvirtNetwork: i.Network, MAC: i.MAC, Address: i.Address}
		if binding.MAC == "" {
			binding.MAC = hypervisor.MAC(pl.controller.options.GatewayID, p.id, index, 0)
		}

		var network *resources.Network
		if err := read(ctx, pl.state, resources.NewNetwork(i.Network), &network); err != nil {
			return err
		}

		if network != nil && network.TypedSpec().Mode == resources.NetworkBridge {
			binding.LibvirtNetwork, binding.Bridge = "", network.TypedSpec().Bridge
		}

		guessed.TypedSpec().Interfaces = append(guessed.TypedSpec().Interfaces, binding)
	}

	p.network = guessed

	return nil
}
