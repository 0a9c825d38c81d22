package network

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// maxAttempts bounds the search for a MAC that nobody has. With 100,000 interfaces one in 168 candidates is taken, so that
// a second attempt is rare and a 64th does not happen.
const maxAttempts = 64

// allocation is one attempt to give a VM all that its document asks for. It changes nothing but the finalizers of the
// networks that it finds, so that they are still there when it is written down.
type allocation struct {
	l       *ledger
	r       controller.QRuntime
	gateway string
	vm      string
	wanted  []resources.Interface
	prior   []resources.NetworkBinding
	used    []bool

	macs      map[string]bool
	addresses map[string]map[netip.Addr]bool
	waits     wait
}

// allocate returns the bindings of a VM, or why there are none. The caller holds the lock.
func (p *pass) allocate(ctx context.Context, prior []resources.NetworkBinding) ([]resources.NetworkBinding, wait, *problem, error) {
	a := &allocation{
		l: &p.c.ledger, r: p.r, gateway: p.c.options.GatewayID, vm: p.id, wanted: p.vm.TypedSpec().Interfaces, prior: prior, used: make([]bool, len(prior)),
		macs: map[string]bool{}, addresses: map[string]map[netip.Addr]bool{},
	}

	var bindings []resources.NetworkBinding

	// A declared MAC comes before one that is made.
	for _, i := range p.vm.TypedSpec().Interfaces {
		if i.MAC != "" {
			a.macs[i.MAC] = true
		}
	}

	for index, i := range p.vm.TypedSpec().Interfaces {
		b, problem, err := a.bind(ctx, index, i)
		if err != nil || problem != nil {
			return nil, a.waits, problem, err
		}

		bindings = append(bindings, b)
	}

	return bindings, wait{}, nil, nil
}

// bind allocates for one interface.
func (a *allocation) bind(ctx context.Context, index int, i resources.Interface) (b resources.NetworkBinding, _ *problem, _ error) {
	a.waits = wait{network: i.Network}
	prior := a.match(index, i.Network)

	n, err := a.l.refresh(ctx, a.r, i.Network)
	if err != nil {
		return b, nil, err
	}

	if n.doc == nil {
		return b, refuse(resources.ReasonNetworkMissing, "there is no network %s", i.Network), nil
	}

	// A VM that is on a network already stays on it while it is being removed: our finalizer holds it.
	if !n.doc.running && prior.Network == "" {
		return b, refuse(resources.ReasonNetworkMissing, "network %s is being removed", i.Network), nil
	}

	held, err := chain.Hold[*resources.Network](ctx, a.r, networkPointer(i.Network), finalizer)
	if err != nil {
		return b, nil, err
	}

	if !held && prior.Network == "" {
		return b, refuse(resources.ReasonNetworkMissing, "network %s is being removed", i.Network), nil
	}

	b.Network = i.Network

	if problem := a.mac(&b, index, i, prior); problem != nil {
		return b, problem, nil
	}

	switch {
	case managed(n.doc.spec.Mode):
		b.LibvirtNetwork, b.Ours = i.Network, true

		return b, a.address(&b, n, i, prior), nil
	case n.doc.spec.Mode == resources.NetworkBridge:
		b.Bridge = n.doc.spec.Bridge
	default:
		b.LibvirtNetwork = n.doc.spec.LibvirtNetwork(i.Network)
	}

	b.Address = i.Address // who gives it out is not our business, but the VM's document says it

	return b, nil, nil
}

// match finds what the VM had for this interface: that of the same place, or any on the same network.
func (a *allocation) match(index int, network string) resources.NetworkBinding {
	take := func(i int) resources.NetworkBinding {
		a.used[i] = true

		return a.prior[i]
	}

	if index < len(a.prior) && !a.used[index] && a.prior[index].Network == network {
		return take(index)
	}

	for i, b := range a.prior {
		if !a.used[i] && b.Network == network {
			return take(i)
		}
	}

	return resources.NetworkBinding{}
}

// holder returns the other VM that has a MAC.
func (a *allocation) holder(mac string) string {
	if vm := a.l.macs[mac]; vm != a.vm {
		return vm
	}

	return ""
}

func (a *allocation) mac(b *resources.NetworkBinding, index int, i resources.Interface, prior resources.NetworkBinding) *problem {
	if i.MAC != "" {
		if other := a.holder(i.MAC); other != "" {
			a.waits = wait{mac: i.MAC}

			return refuse(resources.ReasonMACInUse, "MAC %s is that of VM %s", i.MAC, other)
		}

		b.MAC = i.MAC

		return nil
	}

	candidates := func(yield func(string) bool) {
		if prior.MAC != "" && !yield(prior.MAC) {
			return
		}

		for attempt := range maxAttempts {
			if !yield(hypervisor.MAC(a.gateway, a.vm, index, attempt)) {
				return
			}
		}
	}

	for mac := range candidates {
		if !a.macs[mac] && a.holder(mac) == "" {
			a.macs[mac], b.MAC = true, mac

			return nil
		}
	}

	a.waits = wait{mac: hypervisor.MAC(a.gateway, a.vm, index, 0)}

	return refuse(resources.ReasonMACInUse, "all %d MACs that interface %d may have are taken", maxAttempts, index)
}

// address chooses the address on a network whose addresses the gateway gives out.
func (a *allocation) address(b *resources.NetworkBinding, n *network, i resources.Interface, prior resources.NetworkBinding) *problem {
	chosen := a.addresses[n.name]
	if chosen == nil {
		chosen = map[netip.Addr]bool{}
		a.addresses[n.name] = chosen
	}

	address, problem := a.pick(n, b, chosen, i, prior)
	if problem == nil {
		chosen[address] = true
		b.Address = address.String()
	}

	return problem
}

func (a *allocation) pick(n *network, b *resources.NetworkBinding, chosen map[netip.Addr]bool, i resources.Interface, prior resources.NetworkBinding) (netip.Addr, *problem) {
	free := func(address netip.Addr) bool {
		vm, taken := n.addresses[address]

		return !chosen[address] && (!taken || vm == a.vm)
	}

	if i.Address != "" {
		a.waits.address = i.Address
		address, err := netip.ParseAddr(i.Address)

		switch {
		case err != nil || !n.doc.usable(address):
			return address, refuse(resources.ReasonInvalid, "address %s is none that a VM can have on network %s (%s)", i.Address, n.name, n.doc.spec.Subnet)
		case chosen[address]:
			return address, refuse(resources.ReasonAddressInUse, "address %s on network %s is that of another interface of this VM", i.Address, n.name)
		case !free(address):
			return address, refuse(resources.ReasonAddressInUse, "address %s on network %s is that of VM %s", i.Address, n.name, n.addresses[address])
		}

		return address, nil
	}

	if address, err := netip.ParseAddr(prior.Address); err == nil && n.doc.usable(address) && free(address) {
		return address, nil
	}

	if address := n.give(a.vm, b.MAC, chosen); address.IsValid() {
		return address, nil
	}

	first, last := n.doc.spec.Bounds()
	a.waits.need = a.lacks(n)

	return netip.Addr{}, refuse(resources.ReasonAddressExhausted, "network %s has no free address between %s and %s", n.name, first, last)
}

// lacks returns how many addresses of a network the VM needs that it does not have.
func (a *allocation) lacks(n *network) int {
	need := 0

	for _, i := range a.wanted {
		if i.Network == n.name && i.Address == "" {
			need++
		}
	}

	for _, b := range a.prior {
		if b.Network == n.name && n.doc.contains(b.Address) {
			need--
		}
	}

	return max(1, need)
}

// retire returns what a VM had and has no more.
func retire(old, retiring, now []resources.NetworkBinding) []resources.NetworkBinding {
	var gone []resources.NetworkBinding

	for _, b := range slices.Concat(retiring, old) {
		if !slices.Contains(now, b) && !slices.Contains(gone, b) {
			gone = append(gone, b)
		}
	}

	return gone
}
