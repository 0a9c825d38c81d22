package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// giveUp completes a forced removal: what is on a host that can't be reached is given up, and named. A host that is
// connected keeps what it has, however hard somebody asks: its VMs are taken apart or moved, and never started twice.
func (o *Operations) giveUp(ctx context.Context, c Caller, r *store.Removal) error {
	if c.Rule != nil {
		return nil // no sender's word counts for that
	}

	host := r.Name

	if r.Kind.Name == "VM" {
		placement, err := specOf[resources.VMPlacementSpec](ctx, o.state, "VMPlacement", r.Name)
		if err != nil || placement == nil || placement.Host == "" {
			return err
		}

		host = placement.Host
	} else if r.Kind.Name != "Host" {
		return nil
	}

	status, err := specOf[resources.HostStatusSpec](ctx, o.state, "HostStatus", host)
	if err != nil || status != nil && status.Connected {
		return err
	}

	r.Abandon = true

	if r.Kind.Name == "Host" {
		r.Lost, err = o.lostWithHost(ctx, host)

		return err
	}

	if r.Lost, err = o.lostWithVM(ctx, r.Name, host); err != nil {
		return err
	}

	networks, err := o.networksOn(ctx, host, func(vm string) bool { return vm == r.Name })
	if err != nil {
		return err
	}

	others, err := o.networksOn(ctx, host, func(vm string) bool { return vm != r.Name })
	if err != nil {
		return err
	}

	r.Lost = append(r.Lost, slices.DeleteFunc(networks, func(n string) bool { return slices.Contains(others, n) })...)

	return o.survey(ctx, c, host)
}

// survey has the host say, when it is back, what of ours is left on it.
func (o *Operations) survey(ctx context.Context, c Caller, host string) error {
	_, err := o.state.UpdateWithConflicts(ctx, resources.NewHost(host).Metadata(), func(r resource.Resource) error {
		resources.SetSurvey(r.Metadata(), c.ID)

		return nil
	}, state.WithExpectedPhaseAny())
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error noting what is left behind on host %q: %w", host, err)
	}

	return nil
}

// lostWithHost names the VMs on a host with what they have there, and the host's networks of ours.
func (o *Operations) lostWithHost(ctx context.Context, host string) (lost []string, err error) {
	vms, err := o.vmsOn(ctx, host)
	if err != nil {
		return nil, err
	}

	for _, vm := range vms {
		of, err := o.lostWithVM(ctx, vm, host)
		if err != nil {
			return nil, err
		}

		lost = append(append(lost, "VM "+vm), of...)
	}

	networks, err := o.networksOn(ctx, host, func(string) bool { return true })

	return append(lost, networks...), err
}

// lostWithVM names the domain and the volumes of a VM.
func (o *Operations) lostWithVM(ctx context.Context, vm, host string) ([]string, error) {
	config, err := specOf[resources.VMConfigSpec](ctx, o.state, "VM", vm)
	if err != nil || config == nil {
		return nil, err
	}

	status, err := specOf[resources.VMStatusSpec](ctx, o.state, "VMStatus", vm)
	if err != nil {
		return nil, err
	}

	if status == nil {
		status = &resources.VMStatusSpec{}
	}

	uuid := cmp.Or(status.DomainUUID, hypervisor.DomainUUID(o.Store.GatewayID(), vm))
	lost := []string{fmt.Sprintf("domain %s (%s) on host %s", config.DomainName(vm), uuid, host)}

	for _, disk := range status.DisksMade {
		lost = append(lost, fmt.Sprintf("volume %s on host %s", hypervisor.VolumeName(vm, disk), host))
	}

	return lost, nil
}

// vmsOn returns the names of the VMs on a host, sorted.
func (o *Operations) vmsOn(ctx context.Context, host string) ([]string, error) {
	list, err := o.state.List(ctx, resources.NewVMPlacement("").Metadata(), state.WithLabelQuery(resource.LabelEqual(resources.LabelHost, host)))
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs on host %q: %w", host, err)
	}

	names := make([]string, len(list.Items))
	for i, item := range list.Items {
		names[i] = item.Metadata().ID()
	}

	slices.Sort(names)

	return names, nil
}

// networksOn names the networks of ours on a host that some of its VMs use, sorted.
func (o *Operations) networksOn(ctx context.Context, host string, of func(vm string) bool) (names []string, err error) {
	list, err := o.state.List(ctx, resources.NewNetworkConfig("").Metadata(), state.WithLabelQuery(resource.LabelEqual(resources.LabelHost, host)))
	if err != nil {
		return nil, fmt.Errorf("error listing the networks on host %q: %w", host, err)
	}

	for _, item := range list.Items {
		spec, ok := item.Spec().(*resources.NetworkConfigSpec)
		if !ok || !of(item.Metadata().ID()) {
			continue
		}

		for _, b := range slices.Concat(spec.Interfaces, spec.Retiring) {
			if b.Ours {
				names = append(names, fmt.Sprintf("network %s on host %s", b.Network, host))
			}
		}
	}

	slices.Sort(names)

	return slices.Compact(names), nil
}

// usedBy returns the VMs that keep a host or a network from going.
func (o *Operations) usedBy(ctx context.Context, kind *resources.Kind, name string) (vms []string, err error) {
	switch kind.Name {
	case "Host":
		return o.vmsOn(ctx, name)
	case "Network":
	default:
		return nil, nil
	}

	list, err := o.state.List(ctx, resources.NewNetworkConfig("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the VMs on network %q: %w", name, err)
	}

	for _, item := range list.Items {
		spec, ok := item.Spec().(*resources.NetworkConfigSpec)
		if ok && slices.ContainsFunc(slices.Concat(spec.Interfaces, spec.Retiring), func(b resources.NetworkBinding) bool { return b.Network == name }) {
			vms = append(vms, item.Metadata().ID())
		}
	}

	slices.Sort(vms)

	return vms, nil
}
