package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gateway/sources/files"
	"gateway/test/libvirtd"
)

// settle is how long a file must not change before the gateway takes it.
const settle = files.DefaultSettle

// loopArgs are the arguments of loopJob: define and start domains by direct calls.
type loopArgs struct {
	URI string
	VMs int
	// Workers is how many connections there are, each used by one goroutine.
	Workers int
	QEMU    bool
}

// workers are the degrees of parallelism among which the best loop is looked for.
var workers = []int{1, 2, 4, 8}

// libvirtRow converges VMs on libvirt's test driver inside a libvirtd of its own, over its socket.
func libvirtRow(ctx context.Context, b *bench) ([]row, error) {
	return b.againstLoop(ctx, b.size(500, 50), false, "%d VMs, documents → running, test+unix:///default", 1.5)
}

// qemuRow starts VMs on QEMU, paused, so that no guest takes the CPU from the others.
func qemuRow(ctx context.Context, b *bench) ([]row, error) {
	return b.againstLoop(ctx, b.size(20, 4), true, "%d VMs, documents → started paused, QEMU in software emulation", 1.1)
}

// againstLoop measures the gateway and the best loop of direct calls, each on a fresh daemon.
func (b *bench) againstLoop(ctx context.Context, vms int, qemu bool, name string, limit float64) ([]row, error) {
	name, goal := fmt.Sprintf(name, vms), fmt.Sprintf("under %.1f × the best loop", limit)

	if err := possible(); err != nil {
		return []row{skipped(name, goal, err)}, nil
	}

	var (
		loops []time.Duration
		best  int
		ours  footprint
	)

	for _, n := range workers {
		var took time.Duration

		err := onDaemon(ctx, qemu, func(uri string) error {
			return b.do(ctx, "loop", loopArgs{URI: uri, VMs: vms, Workers: n, QEMU: qemu}, &took)
		})
		if err != nil {
			return nil, err
		}

		loops = append(loops, took)
	}

	best = slices.Index(loops, slices.Min(loops))

	dir, err := b.newDir()
	if err != nil {
		return nil, err
	}

	err = onDaemon(ctx, qemu, func(uri string) error {
		return b.do(ctx, "gateway", gatewayArgs{Dir: dir, VMs: vms, Hosts: 1, PerFile: 100, URI: uri, Paused: qemu, Hasty: true}, &ours)
	})
	if err != nil {
		return nil, err
	}

	ratio := ours.Wall.Seconds() / loops[best].Seconds()

	return []row{{
		name: name, ours: fmt.Sprintf("%s, of it %s the file's settle time; %s CPU a VM", seconds(ours.Wall), seconds(settle), micros(ours.Settled, vms)),
		limit: fmt.Sprintf("%s, loop with %d connections (%s with 1)", seconds(loops[best]), workers[best], seconds(loops[0])),
		ratio: ratio, goal: goal, ok: meets(ratio < limit),
	}}, nil
}

// onDaemon runs something on a libvirtd of its own.
func onDaemon(ctx context.Context, qemu bool, do func(uri string) error) error {
	d, err := libvirtd.Start(ctx, libvirtd.Options{})
	if err != nil {
		return err
	}

	uri := d.TestURI()
	if qemu {
		uri = d.URI()
	}

	err = do(uri)
	if closed := d.Close(); err == nil {
		err = closed
	}

	return err
}
