package main

import (
	"context"
	"fmt"
	"time"
)

// documentsRow drops 5,000 documents, each in a file of its own, on one simulated host.
func documentsRow(ctx context.Context, b *bench) ([]row, error) {
	vms := b.size(5000, 500)

	dir, err := b.newDir()
	if err != nil {
		return nil, err
	}

	var ours, bare footprint

	if err := b.do(ctx, "bare", bareArgs{VMs: vms}, &bare); err != nil {
		return nil, err
	}

	args := gatewayArgs{Dir: dir, VMs: vms, Hosts: 1, PerFile: 1, URI: "sim://bench"}
	if err := b.do(ctx, "gateway", args, &ours); err != nil {
		return nil, err
	}

	return []row{
		{
			name: fmt.Sprintf("%d VM documents at once: time until all run", vms), ours: seconds(ours.Wall), limit: seconds(bare.Wall) + " bare COSI QController",
			ratio: ours.Wall.Seconds() / bare.Wall.Seconds(), goal: "no runtime rebuild", ok: meets(ours.Rebuilds == 0),
		},
		{
			name: fmt.Sprintf("%d VM documents at once: CPU a VM", vms), ours: micros(ours.Settled, vms), limit: micros(bare.Settled, vms) + " bare COSI QController",
			ratio: ours.Settled.Seconds() / bare.Settled.Seconds(),
			goal:  "under 1 ms, from document to status on NATS", ok: meets(ours.Settled/time.Duration(vms) < time.Millisecond),
		},
		{
			name: fmt.Sprintf("%d VM documents at once: resident memory a VM", vms), ours: kilobytes(ours.perVM(vms)) + " with the simulated domain, " + ours.mapped(vms),
			limit: kilobytes(bare.perVM(vms)) + " bare COSI QController", ratio: ours.perVM(vms) / bare.perVM(vms),
		},
	}, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func micros(d time.Duration, n int) string {
	return fmt.Sprintf("%.0f µs", float64(d.Microseconds())/float64(n))
}

func kilobytes(bytes float64) string { return fmt.Sprintf("%.1f KB", bytes/1000) }
