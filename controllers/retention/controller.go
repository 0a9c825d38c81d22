package retention

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// concurrency of reconciles: every change of a VM asks whether it has an override.
const concurrency = 8

// Pacer holds back while controllers have too much to do; store.Pacer is one.
type Pacer interface {
	// Wait returns once more can be done, or with ctx's error when it ends first.
	Wait(ctx context.Context) error
}

// Options are what the controller needs.
type Options struct {
	Pacer Pacer
}

// Controller destroys what has served.
type Controller struct {
	pacer Pacer
}

// New returns the controller.
func New(o Options) *Controller { return &Controller{pacer: o.Pacer} }

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerRetention }

// Settings implements controller.QController. Events and actions are no inputs: they are looked through once a second. As
// inputs each would wait in the queue for its time, and a queue is linear in its length and holds up the intake.
func (c *Controller) Settings() controller.QSettings {
	settings := controller.QSettings{
		RunHook: c.run,
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.OverrideType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceBridge, Type: resources.HoldType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQMapped},
		},
		Outputs: []controller.Output{
			{Type: resources.OverrideType, Kind: controller.OutputShared},
			{Type: resources.HoldType, Kind: controller.OutputShared},
		},
		Concurrency: optional.Some[uint](concurrency),
	}

	for _, kept := range served {
		settings.Outputs = append(settings.Outputs, controller.Output{Type: kept.kind.Type(), Kind: controller.OutputShared})
	}

	return settings
}

// MapInput implements controller.QController: an override ends when its VM changes or goes, a hold when it is gone. Most VMs
// have neither.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, md controller.ReducedResourceMetadata) (asked []resource.Pointer, err error) {
	override, err := chain.Get[*resources.Override](ctx, r, resources.NewOverride(md.ID()).Metadata())
	if err != nil {
		return nil, err
	}

	if override != nil {
		asked = append(asked, override.Metadata())
	}

	hold, err := chain.Get[*resources.Hold](ctx, r, resources.NewHold(resources.HoldID("VM", md.ID())).Metadata())
	if err != nil {
		return nil, err
	}

	if hold != nil {
		asked = append(asked, hold.Metadata())
	}

	return asked, nil
}

// Reconcile implements controller.QController.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	if ptr.Type() == resources.HoldType {
		return reconcileHold(ctx, r, ptr)
	}

	override, err := chain.Get[*resources.Override](ctx, r, ptr)
	if err != nil || override == nil {
		return err
	}

	vm, err := chain.Get[*resources.VMConfig](ctx, r, chain.VM(ptr.ID()))
	if err != nil {
		return err
	}

	return c.reconcileOverride(ctx, logger, r, override, vm)
}
