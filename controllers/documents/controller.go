package documents

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// concurrency of reconciles: reading and decoding a file takes some milliseconds of CPU and waits for the disk.
const concurrency = 8

// Pacer holds back the creation of objects while controllers have too much to do; store.Pacer is one.
type Pacer interface {
	// Wait returns once more can be created, or with ctx's error when it ends first.
	Wait(ctx context.Context) error
}

// Options are what the controller needs.
type Options struct {
	Admission *store.Admission
	Journal   store.Journal
	Pacer     Pacer
	// Roots are the paths of the documents directories.
	Roots []string
	// Deletions is when a scan's removals wait for a confirmation.
	Deletions config.Deletions
	Registry  prometheus.Registerer
}

// Controller writes the declared kinds.
type Controller struct {
	admission *store.Admission
	journal   store.Journal
	pacer     Pacer
	deletions config.Deletions
	metrics   *metrics
	// roots are held for reading by whoever applies a file under them, for writing by a sweep: it sees no half-applied file.
	roots locks
	// visited are the files that this process has looked at: the first look repeats what was refused, because policy or
	// program may have changed since.
	visited visited
	// turns keeps the order of messages about one object.
	turns turns
	// messages and actions are those that wait for an object in teardown, or for a scan.
	messages, actions chain.Waiting
	// confirmed are mass deletions that go on.
	confirmed confirmed
	hosts     *hostsFirst
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{
		admission: o.Admission, journal: o.Journal, pacer: o.Pacer, deletions: o.Deletions, metrics: newMetrics(o.Registry),
		hosts: newHostsFirst(o.Roots),
	}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerDocuments }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	settings := controller.QSettings{
		RunHook: c.dropStale,
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceEvents, Type: resources.FileEventType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceBridge, Type: resources.FileRootType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceEvents, Type: resources.WebhookEventType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceEvents, Type: resources.MessageEventType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceEvents, Type: resources.ActionType, Kind: controller.InputQPrimary},
		},
		Outputs: []controller.Output{
			{Type: resources.ApplyResultType, Kind: controller.OutputExclusive},
			{Type: resources.DeletionGuardType, Kind: controller.OutputExclusive},
			{Type: resources.OverrideType, Kind: controller.OutputShared},
			{Type: resources.ResyncType, Kind: controller.OutputShared},
		},
		Concurrency: optional.Some[uint](concurrency),
	}

	// Declared objects are outputs, which may be read too. They have no COSI owner: the generic destroy controller passes
	// over owned ones.
	for _, kind := range resources.DeclaredKinds() {
		settings.Outputs = append(settings.Outputs, controller.Output{Type: kind.Type, Kind: controller.OutputShared})
	}

	return settings
}

// MapInput implements controller.QController: nothing is mapped.
func (c *Controller) MapInput(context.Context, *zap.Logger, controller.QRuntime, controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return nil, nil
}

// Reconcile implements controller.QController.
func (c *Controller) Reconcile(ctx context.Context, logger *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	switch ptr.Type() {
	case resources.FileEventType:
		return c.reconcileFile(ctx, logger, r, ptr)
	case resources.FileRootType:
		return c.reconcileRoot(ctx, logger, r, ptr)
	case resources.WebhookEventType, resources.MessageEventType:
		return c.reconcileMessage(ctx, logger, r, ptr)
	case resources.ActionType:
		return c.reconcileAction(ctx, logger, r, ptr)
	default:
		return fmt.Errorf("%s is not an input of %s", ptr.Type(), c.Name())
	}
}

// dropStale drops results of messages that went away while the process was stopped; nobody asks for them any more. Those
// of files go with their events, whose finalizer is ours.
func (c *Controller) dropStale(ctx context.Context, _ *zap.Logger, r controller.QRuntime) error {
	list, err := r.ListUncached(ctx, resource.NewMetadata(resources.NamespaceBridge, resources.ApplyResultType, "", resource.VersionUndefined))
	if err != nil {
		return fmt.Errorf("error listing the results: %w", err)
	}

	for _, item := range list.Items {
		result, ok := item.(*resources.ApplyResult)
		if !ok || result.TypedSpec().Root != "" {
			continue
		}

		known := false

		for _, typ := range []resource.Type{resources.WebhookEventType, resources.MessageEventType} {
			event, err := chain.Get[resource.Resource](ctx, r,
				resource.NewMetadata(resources.NamespaceEvents, typ, result.Metadata().ID(), resource.VersionUndefined))
			if err != nil {
				return err
			}

			known = known || event != nil
		}

		if known {
			continue
		}

		if _, err := chain.Drop(ctx, r, result.Metadata()); err != nil {
			return err
		}
	}

	return nil
}
