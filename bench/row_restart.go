package main

import (
	"context"
	"fmt"
	"time"

	"gateway/hypervisor/sim"
)

// restartRows restart gateways with converged VMs. The hosts keep their state in files.
func restartRows(ctx context.Context, b *bench) ([]row, error) {
	sizes := []int{10_000, 100_000}
	if b.quick {
		sizes = []int{500}
	}

	var rows []row

	for _, vms := range sizes {
		dir, err := b.newDir()
		if err != nil {
			return rows, err
		}

		var f footprint

		args := gatewayArgs{Dir: dir, VMs: vms, Hosts: 100, PerFile: 100, URI: "sim://restart-%d?state=" + dir + "/host-%d.json", Hasty: true}
		if err := b.do(ctx, "gateway", args, &f); err != nil {
			return rows, err
		}

		if err := b.do(ctx, "restart", args, &f); err != nil {
			return rows, err
		}

		r := row{
			name: fmt.Sprintf("restart with %d converged VMs, until each was compared", vms),
			ours: fmt.Sprintf("%s, %s CPU a VM, %d modifying calls", seconds(f.Wall), micros(f.CPU, vms), f.Changes),
			goal: "no modifying call", ok: meets(f.Changes == 0),
		}

		if vms == 100_000 {
			r.goal, r.ok = "under 30 s, no modifying call", meets(f.Wall < 30*time.Second && f.Changes == 0)
		}

		rows = append(rows, r)
	}

	return rows, nil
}

// restartJob starts a gateway where another one was. A VM counts in gateway_vms from the end of its first pass on.
func restartJob(ctx context.Context, c *childContext) (any, error) {
	var (
		args gatewayArgs
		f    footprint
	)

	if err := c.decode(&args); err != nil {
		return nil, err
	}

	start, cpu := time.Now(), cpuTime()

	i, err := startGateway(ctx, args.Dir, nil)
	if err != nil {
		return nil, err
	}

	err = poll(ctx, func() (bool, error) {
		n, err := i.metrics(`gateway_vms state="running"`)

		return err == nil && int(n[0]) == args.VMs && sim.Default().Calls()["Domain"] >= int64(args.VMs), err
	})
	f.Wall, f.CPU = time.Since(start), cpuTime()-cpu

	if err == nil {
		err = i.quiet(ctx)
	}

	for _, n := range sim.Default().Changes() {
		f.Changes += n
	}

	if stopped := i.stop(); err == nil {
		err = stopped
	}

	return f, err
}
