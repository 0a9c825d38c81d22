package host

import (
	"context"
	"fmt"
	"sync"
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

const (
	// A change of a connection wakes its host at once. These intervals are for what the pool does not tell, and there are
	// few hosts.
	whileDisconnected = 2 * time.Second
	whileConnected    = 30 * time.Second
	// concurrency of hosts: none of them makes the controller wait.
	concurrency = 4
)

// finalizer is this controller's mark on the hosts that it keeps connected.
const finalizer = resources.ControllerHost

// Pool is what the controller needs of hypervisor.Pool.
type Pool interface {
	Ensure(host, uri string)
	Remove(host string)
	Status(host string) hypervisor.ConnectionStatus
	Watch(fn func(host string)) (unregister func())
	// Driver returns the connection to a host; an error that wraps hypervisor.ErrUnreachable while there is none.
	Driver(host string) (hypervisor.Driver, error)
}

// Options of the controller.
type Options struct {
	Pool Pool
	// GatewayID marks what is ours on hypervisors.
	GatewayID string
}

// Controller reconciles hosts. It implements controller.QController.
type Controller struct {
	pool    Pool
	gateway string
	surveys *chain.Flights[string] // by host

	mu sync.Mutex // guards the following
	// generations are the pool's, of the connections that a HostStatus tells of. The pool counts from the start of the
	// process, the HostStatus for ever.
	generations map[resource.ID]int64
	// drained are the hosts that are drained: the placements of others are no news.
	drained map[resource.ID]struct{}
	// answers are those of hosts that nobody has looked at yet.
	answers map[resource.ID]census
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{
		pool: o.Pool, gateway: o.GatewayID, surveys: chain.NewFlights[string](patience),
		generations: map[resource.ID]int64{}, drained: map[resource.ID]struct{}{}, answers: map[resource.ID]census{},
	}
}

// Name implements controller.QController.
func (c *Controller) Name() string { return resources.ControllerHost }

// Settings implements controller.QController.
func (c *Controller) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceHosts, Type: resources.HostType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceVMs, Type: resources.ResyncType, Kind: controller.InputQMapped},
			{Namespace: resources.NamespaceVMs, Type: resources.VMPlacementType, Kind: controller.InputQMapped},
		},
		Outputs: []controller.Output{
			{Type: resources.HostStatusType, Kind: controller.OutputExclusive},
			{Type: resources.TombstoneType, Kind: controller.OutputShared},
			{Type: resources.ResyncType, Kind: controller.OutputShared},
		},
		Concurrency: optional.Some[uint](concurrency),
		RunHook:     c.follow,
		// What is under way is begun anew by the next reconcile.
		ShutdownHook: c.surveys.Close,
	}
}

// MapInput implements controller.QController: a Resync may name hosts, and a placement may be on one that is drained.
func (c *Controller) MapInput(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	if ptr.Type() == resources.VMPlacementType {
		return c.drainedHosts(), nil
	}

	resync, err := chain.Get[*resources.Resync](ctx, r, ptr)
	if err != nil || resync == nil || resync.TypedSpec().Target == nil || resync.TypedSpec().Target.Kind != "Host" {
		return nil, err
	}

	target := resync.TypedSpec().Target
	if target.Name != "" {
		return []resource.Pointer{resources.NewHost(target.Name).Metadata()}, nil
	}

	list, err := r.ListUncached(ctx, resources.NewHost("").Metadata())
	if err != nil {
		return nil, fmt.Errorf("error listing the hosts of resync %q: %w", ptr.ID(), err)
	}

	var hosts []resource.Pointer

	for _, h := range list.Items {
		if target.Matches("Host", h.Metadata().ID(), h.Metadata().Labels().Raw()) {
			hosts = append(hosts, h.Metadata())
		}
	}

	return hosts, nil
}

// Reconcile implements controller.QController.
func (c *Controller) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	host, err := chain.Get[*resources.Host](ctx, r, ptr)
	if err != nil {
		return err
	}

	if host == nil {
		return destroy(ctx, r, resources.NewResync(wakeID(ptr.ID())).Metadata())
	}

	if !chain.Running(host) {
		return c.tearDown(ctx, r, host)
	}

	if ok, err := chain.Hold[*resources.Host](ctx, r, host.Metadata(), finalizer); err != nil || !ok {
		return err
	}

	return c.connect(ctx, r, host)
}

// connect sees to it that there is a connection, and tells how it is.
func (c *Controller) connect(ctx context.Context, r controller.QRuntime, host *resources.Host) error {
	c.pool.Ensure(host.Metadata().ID(), host.TypedSpec().URI)

	connection := c.pool.Status(host.Metadata().ID())

	surveyed, err := c.writeStatus(ctx, r, host, &connection)

	switch {
	case err != nil:
		return err
	case !connection.Connected:
		return controller.NewRequeueInterval(whileDisconnected)
	case !surveyed:
		return controller.NewRequeueInterval(surveyAgain)
	default:
		return controller.NewRequeueInterval(whileConnected)
	}
}

// tearDown ends the connection once nobody else holds the host: as long as VMs or images are on it, placement or image does, and
// they are taken apart through this connection, which a process that was started meanwhile has yet to make.
func (c *Controller) tearDown(ctx context.Context, r controller.QRuntime, host *resources.Host) error {
	held := *host.Metadata().Finalizers()
	if !held.Has(finalizer) {
		return nil
	}

	if len(held) > 1 && resources.IsAbandoned(host.Metadata()) {
		c.pool.Remove(host.Metadata().ID()) // should it come back in this moment, nothing is done to it any more

		_, err := c.writeStatus(ctx, r, host, &hypervisor.ConnectionStatus{LastError: "the host was given up"})

		return err
	}

	if len(held) > 1 {
		return c.connect(ctx, r, host) // the next finalizer that goes wakes us
	}

	c.pool.Remove(host.Metadata().ID())
	c.forget(host.Metadata().ID())

	if err := c.bury(ctx, r, host); err != nil {
		return err
	}

	return chain.Release(ctx, r, host.Metadata(), finalizer)
}

// bury writes what the last message needs and takes the status away. Both can be repeated.
func (c *Controller) bury(ctx context.Context, r controller.QRuntime, host *resources.Host) error {
	status, err := chain.Get[*resources.HostStatus](ctx, r, resources.NewHostStatus(host.Metadata().ID()).Metadata())
	if err != nil || status == nil {
		return err
	}

	uid := status.TypedSpec().UID
	if uid == "" {
		uid = host.Metadata().ID()
	}

	cause := resources.CauseOf(host.Metadata())
	tombstone := resources.NewTombstone(uid)
	*tombstone.TypedSpec() = resources.TombstoneSpec{
		Kind: "Host", Name: host.Metadata().ID(), UID: uid, Number: status.Metadata().Version().Value() + 1,
		// One number has one content, also where it is written again since the status could not be taken away.
		Cause: cause, Time: status.Metadata().Updated().UTC(),
	}
	resources.SetCause(tombstone.Metadata(), cause)

	// The sink destroys it, so it has no owner.
	if err := r.Create(ctx, tombstone, controller.WithCreateNoOwner()); err != nil && !state.IsConflictError(err) {
		return fmt.Errorf("error writing the tombstone of host %q: %w", host.Metadata().ID(), err)
	}

	// Not torn down first: that would be one more version of the status, with the tombstone's number.
	return destroy(ctx, r, status.Metadata())
}

// destroy takes an own output away. One that is gone is success.
func destroy(ctx context.Context, r controller.QRuntime, ptr resource.Pointer) error {
	if err := r.Destroy(ctx, ptr); err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error destroying %s %q: %w", ptr.Type(), ptr.ID(), err)
	}

	return nil
}
