package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway"
	"gateway/resources"
)

// latencyArgs are the arguments of latencyJob.
type latencyArgs struct {
	Dir         string
	VMs, Events int
}

// latencies are quantiles.
type latencies struct{ P50, P99 time.Duration }

type latencyResult struct{ Ours, Bare latencies }

// latencyRow measures from the write of an event until the Reconcile of the VM that it is about, in an idle gateway and in
// an idle bare runtime, in turns.
func latencyRow(ctx context.Context, b *bench) ([]row, error) {
	dir, err := b.newDir()
	if err != nil {
		return nil, err
	}

	var r latencyResult
	if err := b.do(ctx, "latency", latencyArgs{Dir: dir, VMs: 100, Events: b.size(5000, 500)}, &r); err != nil {
		return nil, err
	}

	ratio := r.Ours.P99.Seconds() / r.Bare.P99.Seconds()

	return []row{
		{
			name: "event written → VM controller's Reconcile, idle, p50", ours: short(r.Ours.P50), limit: short(r.Bare.P50) + " bare COSI QController",
			ratio: r.Ours.P50.Seconds() / r.Bare.P50.Seconds(),
		},
		{
			name: "event written → VM controller's Reconcile, idle, p99", ours: short(r.Ours.P99), limit: short(r.Bare.P99) + " bare COSI QController",
			ratio: ratio, goal: "under 1.5", ok: meets(ratio < 1.5),
		},
	}, nil
}

func short(d time.Duration) string { return d.Round(time.Microsecond).String() }

// probe is one of the two that take turns.
type probe struct {
	st    state.State
	woken chan string
	took  []time.Duration
}

func (p *probe) onReconcile(id string) {
	select {
	case p.woken <- id:
	default: // nobody waits: the reconciles of the arrangement
	}
}

// latencyJob runs both in one process.
func latencyJob(ctx context.Context, c *childContext) (any, error) {
	var args latencyArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	ours, bare := &probe{woken: make(chan string, 16)}, &probe{woken: make(chan string, 16)}

	st, done, err := runBare(ctx, &bareController{concurrency: 16, onReconcile: bare.onReconcile})
	if err != nil {
		cancel()

		return nil, err
	}

	i, err := startGateway(ctx, args.Dir, nil, gateway.WithReconcileHook(ours.onReconcile))
	if err != nil {
		cancel()

		return nil, err
	}

	bare.st, ours.st = st, i.st

	if err = args.arrange(ctx, i, bare.st); err == nil {
		err = args.measure(ctx, ours, bare)
	}

	cancel()
	<-done

	return latencyResult{Ours: ours.quantiles(), Bare: bare.quantiles()}, errors.Join(err, i.stop())
}

// arrange makes the VMs of both.
func (a *latencyArgs) arrange(ctx context.Context, i *instance, bare state.State) error {
	g := gatewayArgs{VMs: a.VMs, Hosts: 1, PerFile: 100, URI: "sim://latency", Hasty: true}
	if _, err := g.converge(ctx, i); err != nil {
		return err
	}

	for n := range a.VMs {
		if err := bare.Create(ctx, resources.NewVMConfig(vmName(n))); err != nil {
			return err
		}
	}

	for _, st := range []state.State{i.st, bare} {
		for n := range a.VMs {
			resync := resources.NewResync(vmName(n))
			resync.TypedSpec().Target = &resources.Target{Kind: "VM", Name: vmName(n)}

			if err := st.Create(ctx, resync); err != nil {
				return fmt.Errorf("error writing the first event: %w", err)
			}
		}
	}

	return i.quiet(ctx)
}

// rest is long enough for a reconcile and its commit to end, so that each event finds an idle gateway.
const rest = 3 * time.Millisecond

func (a *latencyArgs) measure(ctx context.Context, probes ...*probe) error {
	for n := range a.Events {
		for _, p := range probes {
			time.Sleep(rest)

			if err := p.event(ctx, vmName(n%a.VMs)); err != nil {
				return err
			}
		}
	}

	return nil
}

// event writes one event and waits for the reconcile.
func (p *probe) event(ctx context.Context, vm string) error {
	current, err := p.st.Get(ctx, resources.NewResync(vm).Metadata())
	if err != nil {
		return err
	}

	next := current.DeepCopy().(*resources.Resync) //nolint:forcetypeassert // one type a kind
	next.TypedSpec().Sequence++

	for len(p.woken) > 0 {
		<-p.woken
	}

	start := time.Now()

	if err := p.st.Update(ctx, next); err != nil {
		return fmt.Errorf("error writing an event: %w", err)
	}

	for {
		select {
		case id := <-p.woken:
			if id == vm {
				p.took = append(p.took, time.Since(start))

				return nil
			}
		case <-time.After(10 * time.Second):
			return fmt.Errorf("the event of %s led to no reconcile", vm)
		}
	}
}

func (p *probe) quantiles() latencies { return quantilesOf(p.took) }

func quantilesOf(took []time.Duration) (l latencies) {
	if len(took) == 0 {
		return l
	}

	slices.Sort(took)

	return latencies{P50: took[len(took)/2], P99: took[len(took)*99/100]}
}
