package main

import (
	"context"
	"fmt"
	"time"
)

// growthRows converge more and more VMs on 100 simulated hosts.
func growthRows(ctx context.Context, b *bench) ([]row, error) {
	sizes := []int{1000, 10_000, 100_000}
	if b.quick {
		sizes = []int{200, 1000}
	}

	var (
		rows   []row
		before time.Duration
	)

	for n, vms := range sizes {
		dir, err := b.newDir()
		if err != nil {
			return rows, err
		}

		var f footprint

		args := gatewayArgs{Dir: dir, VMs: vms, Hosts: 100, PerFile: 100, URI: "sim://growth-%d"}
		if err := b.do(ctx, "gateway", args, &f); err != nil {
			return rows, err
		}

		each := f.Wall / time.Duration(vms)
		r := row{
			name: fmt.Sprintf("%d VMs on 100 simulated hosts: time until all run, a VM", vms),
			ours: fmt.Sprintf("%s, %s a VM, %s CPU a VM; resident %s a VM, %s", seconds(f.Wall), micros(f.Wall, vms), micros(f.Settled, vms),
				kilobytes(f.perVM(vms)), f.mapped(vms)),
		}

		if before > 0 {
			r.limit, r.ratio = fmt.Sprintf("%d µs a VM at %d", before.Microseconds(), sizes[n-1]), each.Seconds()/before.Seconds()
		}

		if vms == 100_000 {
			r.goal = "under 60 s, ratio under 1.3, under 10 KB a VM"
			r.ok = meets(f.Wall < time.Minute && r.ratio < 1.3 && f.perVM(vms) < 10_000)
		}

		rows, before = append(rows, r), each
	}

	return rows, nil
}
