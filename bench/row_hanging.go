package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor/sim"
	"gateway/resources"
)

// hangingArgs are the arguments of hangingJob.
type hangingArgs struct {
	Dir string
	VMs int
	// Hang makes the first of ten hosts take calls and never answer.
	Hang bool
}

const hangingHosts = 10

// hangingRow creates VMs at a steady pace on ten hosts of which one hangs, and looks at those of the other nine.
func hangingRow(ctx context.Context, b *bench) ([]row, error) {
	var with, without latencies

	for _, hang := range []bool{false, true} {
		dir, err := b.newDir()
		if err != nil {
			return nil, err
		}

		into := &without
		if hang {
			into = &with
		}

		if err := b.do(ctx, "hanging", hangingArgs{Dir: dir, VMs: b.size(2000, 300), Hang: hang}, into); err != nil {
			return nil, err
		}
	}

	ratio := with.P99.Seconds() / without.P99.Seconds()

	return []row{{
		name: "ten hosts, one hangs: a VM of the other nine, created → running, p99", ours: fmt.Sprintf("%s (p50 %s)", short(with.P99), short(with.P50)),
		limit: fmt.Sprintf("%s (p50 %s) without", short(without.P99), short(without.P50)), ratio: ratio, goal: "under 1.2", ok: meets(ratio < 1.2),
	}}, nil
}

// hangingJob creates the VMs and notes when each of them runs.
func hangingJob(ctx context.Context, c *childContext) (any, error) {
	var args hangingArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	i, err := startGateway(ctx, args.Dir, nil)
	if err != nil {
		return nil, err
	}

	g := gatewayArgs{Hosts: hangingHosts, URI: "sim://hanging-%d", Hasty: true}

	var took []time.Duration

	// One VM on each first: before the first placement every host has to say which of our domains it has.
	g.VMs, g.PerFile = hangingHosts, 1

	_, err = g.converge(ctx, i)
	if err == nil {
		if args.Hang {
			defer sim.Default().Host("hanging-0").Inject(sim.Fault{Kind: sim.Hang})()
		}

		took, err = args.create(ctx, i)
	}

	return quantilesOf(took), errors.Join(err, i.stop())
}

// pace is the time between two VMs: a fifth of what one core can take.
const pace = 5 * time.Millisecond

// create creates the VMs and returns how long each took that is not on the hanging host.
func (a *hangingArgs) create(ctx context.Context, i *instance) ([]time.Duration, error) {
	var (
		mu      sync.Mutex
		created = map[string]time.Time{}
	)

	events, failed := make(chan []state.Event), make(chan error, 1)
	if err := i.st.WatchKindAggregated(ctx, resources.NewVMStatus("").Metadata(), events); err != nil {
		return nil, err
	}

	go func() { failed <- a.createPaced(ctx, i.st, &mu, created) }()

	var took []time.Duration

	for wanted := a.VMs - a.VMs/hangingHosts; len(took) < wanted; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-failed:
			if err != nil {
				return nil, err
			}
		case batch := <-events:
			now := time.Now()

			mu.Lock()

			for _, e := range batch {
				s, ok := e.Resource.(*resources.VMStatus)
				if !ok || s.TypedSpec().State != resources.StateRunning {
					continue
				}

				if at, waiting := created[s.Metadata().ID()]; waiting {
					took = append(took, now.Sub(at))
					delete(created, s.Metadata().ID())
				}
			}

			mu.Unlock()
		}
	}

	return took, nil
}

func (a *hangingArgs) createPaced(ctx context.Context, st state.State, mu *sync.Mutex, created map[string]time.Time) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()

	for n := hangingHosts; n < hangingHosts+a.VMs; n++ { // the first ones are there already
		<-ticker.C

		vm := resources.NewVMConfig(vmName(n))
		vm.TypedSpec().Memory = 128 * resources.MiB
		vm.TypedSpec().Placement.Host = fmt.Sprintf("host-%d", n%hangingHosts)

		if n%hangingHosts != 0 {
			mu.Lock()
			created[vmName(n)] = time.Now()
			mu.Unlock()
		}

		if err := st.Create(ctx, vm); err != nil {
			return err
		}
	}

	return nil
}
