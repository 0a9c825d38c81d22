package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/sinks"
	"gateway/sinks/status"
	"gateway/store"
)

// statusArgs are the arguments of statusJob.
type statusArgs struct {
	Dir string
	VMs int
}

// statusResult is in messages a second.
type statusResult struct {
	Ours, Bare float64
	Bytes      int
}

// statusRow publishes one status of each VM, and compares with a program that publishes the same messages.
func statusRow(ctx context.Context, b *bench) ([]row, error) {
	dir, err := b.newDir()
	if err != nil {
		return nil, err
	}

	var r statusResult
	if err := b.do(ctx, "status", statusArgs{Dir: dir, VMs: b.size(20_000, 2000)}, &r); err != nil {
		return nil, err
	}

	ratio := r.Ours / r.Bare

	return []row{{
		name: "status changes published, in order, acked", ours: fmt.Sprintf("%.0f/s of %d bytes", r.Ours, r.Bytes),
		limit: fmt.Sprintf("%.0f/s bare JetStream async, 256 in flight", r.Bare), ratio: ratio, goal: "at least 0.7", ok: meets(ratio >= 0.7),
	}}, nil
}

// recorder passes messages on and keeps them, for the peer to send the same.
type recorder struct {
	jetstream.JetStream
	messages []*nats.Msg
}

func (r *recorder) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	r.messages = append(r.messages, msg)

	return r.JetStream.PublishMsgAsync(msg, opts...)
}

// statusJob runs the sink on a durable store with so many statuses, then the bare publisher, on two streams of one server,
// twice.
func statusJob(ctx context.Context, c *childContext) (any, error) {
	var args statusArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	s, err := store.Open(ctx, store.Options{DataDir: filepath.Join(args.Dir, "data")})
	if err != nil {
		return nil, err
	}

	for n := range args.VMs {
		if err := s.State().Create(ctx, benchStatus(n)); err != nil {
			return nil, err
		}
	}

	var (
		result statusResult
		errs   []error
	)

	// The first turn warms up both.
	for turn := range 2 {
		ours, recorded, err := publishStatuses(ctx, filepath.Join(args.Dir, fmt.Sprint("ours", turn)), s, args.VMs)
		if err != nil {
			errs = append(errs, err)

			break
		}

		bare, err := publishBare(ctx, filepath.Join(args.Dir, fmt.Sprint("bare", turn)), recorded)
		errs = append(errs, err)
		result = statusResult{Ours: ours, Bare: bare, Bytes: len(recorded[0].Data)}
	}

	return result, errors.Join(append(errs, s.Close())...)
}

// benchStatus is the status of a VM that runs.
func benchStatus(n int) *resources.VMStatus {
	st, now := resources.NewVMStatus(vmName(n)), time.Now().UTC()
	spec := st.TypedSpec()
	spec.State, spec.Host, spec.UID, spec.DomainUUID = resources.StateRunning, "host-1", "00000000-0000-0000-0000-000000000000", "11111111-1111-1111-1111-111111111111"
	spec.UID = spec.UID[:30] + fmt.Sprintf("%06d", n)
	spec.ObservedRevision, spec.Cause, spec.Started = 1, "event", now

	for _, c := range []string{resources.ConditionAccepted, resources.ConditionPlaced, resources.ConditionNetworkReady, resources.ConditionConverged} {
		spec.Conditions = resources.SetCondition(spec.Conditions, resources.Condition{Type: c, Status: resources.ConditionTrue, Reason: resources.ReasonReady}, now)
	}

	return st
}

// publishStatuses runs the sink until all is acknowledged.
func publishStatuses(ctx context.Context, dir string, s store.Store, vms int) (float64, []*nats.Msg, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	js, stop, err := statusStream(ctx, dir)
	if err != nil {
		return 0, nil, err
	}
	defer stop()

	registry, recording := prometheus.NewRegistry(), &recorder{JetStream: js}
	metrics := sinks.NewMetrics(registry).For("status")
	sink := status.New(status.Options{
		State: s.State(), Barrier: s, Publisher: recording, Names: broker.Names{Prefix: "gateway"}, GatewayID: s.GatewayID(),
		Logger: zap.NewNop(), Metrics: metrics,
	})
	done, start := make(chan error, 1), time.Now()

	go func() { done <- sink.Run(ctx) }()

	err = poll(ctx, func() (bool, error) {
		info, err := js.Stream(ctx, broker.Names{Prefix: "gateway"}.StatusStream())
		if err != nil {
			return false, err
		}

		return info.CachedInfo().State.LastSeq >= uint64(vms), nil
	})
	rate := float64(vms) / time.Since(start).Seconds()

	cancel()

	return rate, recording.messages, errors.Join(err, <-done)
}

// publishBare publishes messages with as many in flight as the sink has.
func publishBare(ctx context.Context, dir string, messages []*nats.Msg) (float64, error) {
	js, stop, err := statusStream(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer stop()

	start := time.Now()

	for _, m := range messages {
		copied := nats.NewMsg(m.Subject)
		copied.Data, copied.Header = m.Data, m.Header

		if _, err := js.PublishMsgAsync(copied, jetstream.WithStallWait(time.Minute)); err != nil {
			return 0, err
		}
	}

	<-js.PublishAsyncComplete()

	return float64(len(messages)) / time.Since(start).Seconds(), nil
}

// statusStream starts the embedded server with the gateway's streams.
func statusStream(ctx context.Context, dir string) (jetstream.JetStream, func(), error) {
	embedded, err := broker.StartEmbedded(broker.EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: dir, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}

	connection, err := broker.Connect(config.Default().NATS, embedded, zap.NewNop())
	if err != nil {
		return nil, nil, err
	}

	js, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		return nil, nil, err
	}

	for _, stream := range (broker.Names{Prefix: "gateway"}).Streams() {
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return nil, nil, err
		}
	}

	return js, func() {
		connection.Close()
		embedded.Stop()
	}, nil
}
