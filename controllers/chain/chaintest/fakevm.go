package chaintest

import (
	"context"
	"errors"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

const finalizer = resources.ControllerVM

// FakeVM stands in for the vm controller: it defines and starts a domain where placement and network say, and takes it off
// before it lets go of them.
type FakeVM struct {
	Pool interface {
		Driver(host string) (hypervisor.Driver, error)
	}
	// Delay is how long a domain takes to go.
	Delay time.Duration
}

// Name implements controller.QController.
func (f *FakeVM) Name() string { return resources.ControllerVM }

// Settings implements controller.QController.
func (f *FakeVM) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceVMs, Type: resources.VMPlacementType, Kind: controller.InputQMapped},
			{Namespace: resources.NamespaceNetworks, Type: resources.NetworkConfigType, Kind: controller.InputQMapped},
		},
		Outputs:     []controller.Output{{Type: resources.VMStatusType, Kind: controller.OutputExclusive}},
		Concurrency: optional.Some[uint](16),
	}
}

// MapInput implements controller.QController.
func (f *FakeVM) MapInput(_ context.Context, _ *zap.Logger, _ controller.QRuntime, md controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return []resource.Pointer{chain.VM(md.ID())}, nil
}

// Reconcile implements controller.QController.
func (f *FakeVM) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	vm, err := chain.Get[*resources.VMConfig](ctx, r, chain.VM(ptr.ID()))
	if err != nil {
		return err
	}

	placement, err := chain.Get[*resources.VMPlacement](ctx, r, resources.NewVMPlacement(ptr.ID()).Metadata())
	if err != nil {
		return err
	}

	config, err := chain.Get[*resources.NetworkConfig](ctx, r, resources.NewNetworkConfig(ptr.ID()).Metadata())
	if err != nil {
		return err
	}

	err = f.reconcile(ctx, r, vm, placement, config)
	if errors.Is(err, hypervisor.ErrUnreachable) {
		return controller.NewRequeueInterval(time.Second)
	}

	return err
}

func (f *FakeVM) reconcile(ctx context.Context, r controller.QRuntime, vm *resources.VMConfig, placement *resources.VMPlacement, config *resources.NetworkConfig) error {
	if !chain.Running(vm) || !chain.Running(placement) || !chain.Running(config) {
		return f.leave(ctx, r, vm, placement, config)
	}

	n := config.TypedSpec()
	if !n.Ready || n.Host == "" || n.Host != placement.TypedSpec().Host || n.Revision != resources.RevisionOf(vm.Metadata()) {
		return nil
	}

	for _, hold := range []func() (bool, error){
		func() (bool, error) {
			return chain.Hold[*resources.VMConfig](ctx, r, vm.Metadata(), finalizer)
		},
		func() (bool, error) {
			return chain.Hold[*resources.VMPlacement](ctx, r, placement.Metadata(), finalizer)
		},
		func() (bool, error) {
			return chain.Hold[*resources.NetworkConfig](ctx, r, config.Metadata(), finalizer)
		},
	} {
		if ok, err := hold(); err != nil || !ok {
			return err
		}
	}

	again, err := chain.Get[*resources.VMPlacement](ctx, r, placement.Metadata())
	if err != nil || !chain.Running(again) || again.TypedSpec().Host != placement.TypedSpec().Host {
		return err
	}

	return f.define(ctx, r, vm, config)
}

func (f *FakeVM) define(ctx context.Context, r controller.QRuntime, vm *resources.VMConfig, config *resources.NetworkConfig) error {
	host := config.TypedSpec().Host

	driver, err := f.Pool.Driver(host)
	if err != nil {
		return err
	}

	spec := hypervisor.DomainSpec{
		Name: vm.Metadata().ID(), UUID: hypervisor.DomainUUID(GatewayID, vm.Metadata().ID()), VM: vm.Metadata().ID(),
		Revision: resources.RevisionOf(vm.Metadata()), CPUs: vm.TypedSpec().CPUs, Memory: vm.TypedSpec().Memory,
	}

	for _, b := range config.TypedSpec().Interfaces {
		spec.Interfaces = append(spec.Interfaces, hypervisor.DomainInterface{MAC: b.MAC, Network: b.LibvirtNetwork, Bridge: b.Bridge})
	}

	if _, err := driver.DefineDomain(ctx, spec); err != nil {
		return err
	}

	if err := driver.StartDomain(ctx, spec.UUID, false); err != nil {
		return err
	}

	return r.Modify(ctx, resources.NewVMStatus(vm.Metadata().ID()), func(res resource.Resource) error {
		if status, ok := res.(*resources.VMStatus); ok {
			status.TypedSpec().Host, status.TypedSpec().State = host, resources.StateRunning
		}

		return nil
	})
}

// leave takes the domain off its host and lets go, in the order of the chain.
func (f *FakeVM) leave(ctx context.Context, r controller.QRuntime, vm *resources.VMConfig, placement *resources.VMPlacement, config *resources.NetworkConfig) error {
	if chain.Has(placement, finalizer) {
		if err := f.undefine(ctx, vm, placement.TypedSpec().Host); err != nil {
			return err
		}
	}

	if chain.Has(config, finalizer) {
		if err := chain.Release(ctx, r, config.Metadata(), finalizer); err != nil {
			return err
		}
	}

	if chain.Has(placement, finalizer) {
		if err := chain.Release(ctx, r, placement.Metadata(), finalizer); err != nil {
			return err
		}
	}

	if chain.Running(vm) || !chain.Has(vm, finalizer) {
		return nil
	}

	if err := r.Destroy(ctx, resources.NewVMStatus(vm.Metadata().ID()).Metadata()); err != nil && !state.IsNotFoundError(err) {
		return err
	}

	return chain.Release(ctx, r, vm.Metadata(), finalizer)
}

func (f *FakeVM) undefine(ctx context.Context, vm *resources.VMConfig, host string) error {
	driver, err := f.Pool.Driver(host)
	if err != nil {
		return err
	}

	if f.Delay > 0 {
		time.Sleep(f.Delay)
	}

	uuid := hypervisor.DomainUUID(GatewayID, vm.Metadata().ID())

	if _, err := driver.Domain(ctx, uuid); errors.Is(err, hypervisor.ErrNotFound) {
		return nil
	}

	if err := driver.ForceOff(ctx, uuid); err != nil {
		return err
	}

	return driver.UndefineDomain(ctx, uuid)
}
