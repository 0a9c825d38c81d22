package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pushConnections is how many senders there are.
const pushConnections = 64

// webhookRows send signed pushes to the gateway, to net/http with HMAC, and to the same with a JetStream publish that is
// synced to the disk, in turns.
func webhookRows(ctx context.Context, b *bench) ([]row, error) {
	turn := time.Duration(b.size(4000, 1000)) * time.Millisecond
	kinds := []struct {
		job       string
		jetStream bool
	}{{"hooks", false}, {"peer", true}, {"peer", false}}

	var (
		rates [3]float64
		cpus  [3]time.Duration
		p99   time.Duration
		count [3]int
	)

	for n, kind := range kinds {
		dir, err := b.newDir()
		if err != nil {
			return nil, err
		}

		l, cpu, err := b.sendTo(ctx, kind.job, hooksArgs{Dir: dir, JetStream: kind.jetStream}, turn)
		if err != nil {
			return nil, err
		}

		rates[n], cpus[n], count[n] = l.perSecond(), cpu, l.Answered

		if n == 0 {
			p99 = l.P99
		}
	}

	each := func(n int) float64 { return float64(cpus[n].Microseconds()) / float64(max(count[n], 1)) }
	durable, cost := rates[0]/rates[1], each(0)/each(2)

	return []row{
		{
			name: "signed 7.3 KB push over HTTP, durable, 64 connections (own client)", ours: fmt.Sprintf("%.0f/s, p99 %s", rates[0], short(p99)),
			limit: fmt.Sprintf("%.0f/s net/http + HMAC + JetStream with SyncAlways", rates[1]), ratio: durable, goal: "at least 3", ok: meets(durable >= 3),
		},
		{
			name: "signed 7.3 KB push over HTTP: CPU a request", ours: fmt.Sprintf("%.0f µs, all processing included", each(0)),
			limit: fmt.Sprintf("%.0f µs net/http + HMAC (%.0f/s)", each(2), rates[2]), ratio: cost, goal: "under 2.5", ok: meets(cost < 2.5),
		},
	}, nil
}

// sendTo starts a server in a process of its own, sends to it, and returns what came of it and the server's CPU time.
func (b *bench) sendTo(ctx context.Context, job string, args hooksArgs, turn time.Duration) (l load, cpu time.Duration, err error) {
	c, err := b.start(ctx, job, args)
	if err != nil {
		return l, 0, err
	}

	var at listening
	if err := c.hello(&at); err != nil {
		return l, 0, errors.Join(err, c.finish(&struct{}{}))
	}

	if _, err = sendPushes(ctx, at.Address, at.Path, pushConnections, turn/4); err == nil { // connections, heap and files are warm
		var before, after time.Duration

		if before, err = cpuTimeOf(c.cmd.Process.Pid); err == nil {
			l, err = sendPushes(ctx, at.Address, at.Path, pushConnections, turn)
			after, _ = cpuTimeOf(c.cmd.Process.Pid)
			cpu = after - before
		}
	}

	if finished := c.finish(&struct{}{}); err == nil {
		err = finished
	}

	return l, cpu, err
}
