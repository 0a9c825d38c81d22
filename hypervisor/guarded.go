package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gateway/resources"
)

// guarded is the driver that the pool gives to callers: every call has a deadline, after which it is abandoned, and a
// place among a bounded number. It tells the pool when the connection is lost.
type guarded struct {
	host    string
	driver  Driver
	limits  *limits
	metrics *metrics
	// lost gets the first error that says that the connection is lost.
	lost chan error
	// gone is closed when the pool gives the connection up.
	gone   chan struct{}
	giveUp func()
}

var _ Driver = (*guarded)(nil)

func newGuarded(host string, driver Driver, limits *limits, metrics *metrics) *guarded {
	gone := make(chan struct{})

	return &guarded{
		host: host, driver: driver, limits: limits, metrics: metrics,
		lost:   make(chan error, 1),
		gone:   gone,
		giveUp: sync.OnceFunc(func() { close(gone) }),
	}
}

// call describes one call. Steps name the object that they change.
type call struct {
	name, object string
	step         bool
	// many calls in one, or one that takes long: it has the time of a step.
	many bool
	// unplaced calls need no place among the others.
	unplaced bool
	// flow is the content of a call that lasts as long as its content flows; nil: it has a deadline.
	flow *flow
}

func read(name string) call { return call{name: name} }

func step(name, kind, object string) call {
	return call{name: name, object: kind + " " + object, step: true}
}

func (c call) timeout() time.Duration {
	if c.step || c.many {
		return StepTimeout
	}

	return ReadTimeout
}

// limit returns a context that ends when the call takes too long.
func (c call) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.flow != nil {
		return c.flow.watch(ctx)
	}

	return context.WithTimeout(ctx, c.timeout())
}

// do runs one call in a goroutine of its own, which is abandoned when it does not answer in time: libvirt can't cancel.
func do[T any](ctx context.Context, g *guarded, c call, fn func(context.Context) (T, error)) (T, error) {
	var none T

	if err := g.alive(ctx); err != nil {
		return none, g.explain(c, err)
	}

	t, err := g.limits.enter(ctx, g.gone, c)
	if err != nil {
		return none, g.explain(c, err)
	}

	// The time begins when the call does: one that waited for its place is not the hypervisor's fault.
	ctx, cancel := c.limit(ctx)
	defer cancel()

	type answer struct {
		value T
		err   error
	}

	answers := make(chan answer, 1)
	start := time.Now()

	go func() {
		value, err := safely(func() (T, error) { return fn(ctx) })

		t.finish(ctx.Err() == nil && !errors.Is(err, ErrUnreachable))
		answers <- answer{value, err}
	}()

	defer func() { g.metrics.calls.WithLabelValues(c.name).Observe(time.Since(start).Seconds()) }()

	select {
	case a := <-answers:
		return a.value, g.note(a.err)
	case <-ctx.Done():
		err = fmt.Errorf("%w: %v", ErrUnreachable, context.Cause(ctx))
	case <-g.gone:
		err = ErrConnectionLost
	}

	if !t.abandon() {
		a := <-answers

		return a.value, g.note(a.err)
	}

	return none, g.explain(c, err)
}

// alive refuses calls that can't be made any more.
func (g *guarded) alive(ctx context.Context) error {
	select {
	case <-g.gone:
		return ErrConnectionLost
	default:
	}

	if ctx.Err() != nil {
		return fmt.Errorf("%w: %v", ErrUnreachable, context.Cause(ctx))
	}

	return nil
}

// note tells the pool when an error says that the connection is lost.
func (g *guarded) note(err error) error {
	if errors.Is(err, ErrConnectionLost) {
		select {
		case g.lost <- err:
		default: // it knows
		}
	}

	return err
}

func (g *guarded) explain(c call, err error) error {
	if c.object == "" {
		return fmt.Errorf("error calling %s on host %q: %w", c.name, g.host, err)
	}

	return fmt.Errorf("error calling %s of %s on host %q: %w", c.name, c.object, g.host, err)
}

// doErr is do for calls that return nothing but an error.
func doErr(ctx context.Context, g *guarded, c call, fn func(context.Context) error) error {
	_, err := do(ctx, g, c, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })

	return err
}

func (g *guarded) Info(ctx context.Context) (Info, error) {
	return do(ctx, g, call{name: "Info", unplaced: true}, g.driver.Info)
}

func (g *guarded) Domains(ctx context.Context) ([]Domain, error) {
	return do(ctx, g, call{name: "Domains", many: true}, g.driver.Domains)
}

func (g *guarded) Inspect(ctx context.Context, uuid string) (Inspection, error) {
	return do(ctx, g, read("Inspect"), func(ctx context.Context) (Inspection, error) { return g.driver.Inspect(ctx, uuid) })
}

func (g *guarded) Domain(ctx context.Context, uuid string) (Domain, error) {
	return do(ctx, g, read("Domain"), func(ctx context.Context) (Domain, error) { return g.driver.Domain(ctx, uuid) })
}

func (g *guarded) DomainByName(ctx context.Context, name string) (Domain, error) {
	return do(ctx, g, read("DomainByName"), func(ctx context.Context) (Domain, error) { return g.driver.DomainByName(ctx, name) })
}

func (g *guarded) DefineDomain(ctx context.Context, spec DomainSpec) (DefineResult, error) {
	return do(ctx, g, step("DefineDomain", "domain", spec.UUID), func(ctx context.Context) (DefineResult, error) {
		return g.driver.DefineDomain(ctx, spec)
	})
}

func (g *guarded) PlanDomain(ctx context.Context, spec DomainSpec) (DomainPlan, error) {
	return do(ctx, g, read("PlanDomain"), func(ctx context.Context) (DomainPlan, error) { return g.driver.PlanDomain(ctx, spec) })
}

func (g *guarded) StartDomain(ctx context.Context, uuid string, paused bool) error {
	return doErr(ctx, g, step("StartDomain", "domain", uuid), func(ctx context.Context) error {
		return g.driver.StartDomain(ctx, uuid, paused)
	})
}

func (g *guarded) RequestShutdown(ctx context.Context, uuid string) error {
	return doErr(ctx, g, step("RequestShutdown", "domain", uuid), func(ctx context.Context) error {
		return g.driver.RequestShutdown(ctx, uuid)
	})
}

func (g *guarded) ForceOff(ctx context.Context, uuid string) error {
	return doErr(ctx, g, step("ForceOff", "domain", uuid), func(ctx context.Context) error { return g.driver.ForceOff(ctx, uuid) })
}

func (g *guarded) Pause(ctx context.Context, uuid string) error {
	return doErr(ctx, g, step("Pause", "domain", uuid), func(ctx context.Context) error { return g.driver.Pause(ctx, uuid) })
}

func (g *guarded) Resume(ctx context.Context, uuid string) error {
	return doErr(ctx, g, step("Resume", "domain", uuid), func(ctx context.Context) error { return g.driver.Resume(ctx, uuid) })
}

func (g *guarded) DiskTrouble(ctx context.Context, uuid string) (string, error) {
	// It has the storage looked at, which is more than the daemon's memory.
	return do(ctx, g, call{name: "DiskTrouble", many: true}, func(ctx context.Context) (string, error) {
		return g.driver.DiskTrouble(ctx, uuid)
	})
}

func (g *guarded) UndefineDomain(ctx context.Context, uuid string) error {
	return doErr(ctx, g, step("UndefineDomain", "domain", uuid), func(ctx context.Context) error {
		return g.driver.UndefineDomain(ctx, uuid)
	})
}

func (g *guarded) Addresses(ctx context.Context, uuid string) ([]resources.Address, error) {
	return do(ctx, g, read("Addresses"), func(ctx context.Context) ([]resources.Address, error) {
		return g.driver.Addresses(ctx, uuid)
	})
}

func (g *guarded) Networks(ctx context.Context) ([]Network, error) {
	return do(ctx, g, read("Networks"), g.driver.Networks)
}

func (g *guarded) EnsureNetwork(ctx context.Context, spec NetworkSpec) (bool, error) {
	return do(ctx, g, step("EnsureNetwork", "network", spec.Name), func(ctx context.Context) (bool, error) {
		return g.driver.EnsureNetwork(ctx, spec)
	})
}

func (g *guarded) RemoveNetwork(ctx context.Context, name string) error {
	return doErr(ctx, g, step("RemoveNetwork", "network", name), func(ctx context.Context) error {
		return g.driver.RemoveNetwork(ctx, name)
	})
}

func (g *guarded) EnsureVolume(ctx context.Context, spec VolumeSpec) (path string, created bool, err error) {
	type volume struct {
		path    string
		created bool
	}

	v, err := do(ctx, g, step("EnsureVolume", "volume", spec.Name), func(ctx context.Context) (v volume, err error) {
		v.path, v.created, err = g.driver.EnsureVolume(ctx, spec)

		return v, err
	})

	return v.path, v.created, err
}

func (g *guarded) RemoveVolume(ctx context.Context, name string) error {
	return doErr(ctx, g, step("RemoveVolume", "volume", name), func(ctx context.Context) error {
		return g.driver.RemoveVolume(ctx, name)
	})
}

// Events has no deadline. It ends when the pool gives the connection up, too.
func (g *guarded) Events(ctx context.Context, ready func(), fn func(Event)) error {
	if err := g.alive(ctx); err != nil {
		return g.explain(read("Events"), err)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	watched := make(chan struct{})
	defer close(watched)

	go func() {
		select {
		case <-g.gone:
			cancel(ErrConnectionLost)
		case <-watched:
		}
	}()

	err := g.note(g.driver.Events(ctx, ready, fn))

	if errors.Is(context.Cause(ctx), ErrConnectionLost) {
		return g.explain(read("Events"), ErrConnectionLost)
	}

	return err
}

// Close does nothing: the connection is the pool's.
func (g *guarded) Close() error { return nil }
