package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"gateway/resources"
	"gateway/store"
)

// bareController does nothing with VMs: what COSI itself costs. Its first reconcile of a VM adds a finalizer, by which the
// second comes, which writes an empty status.
type bareController struct {
	concurrency uint
	// onReconcile is called at the start of each reconcile, if set.
	onReconcile func(id string)
	reconciles  atomic.Int64
}

const bareName = "bare"

// Name implements controller.QController.
func (b *bareController) Name() string { return bareName }

// Settings implements controller.QController.
func (b *bareController) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs: []controller.Input{
			{Namespace: resources.NamespaceVMs, Type: resources.VMConfigType, Kind: controller.InputQPrimary},
			{Namespace: resources.NamespaceVMs, Type: resources.ResyncType, Kind: controller.InputQMapped},
		},
		Outputs:     []controller.Output{{Type: resources.VMStatusType, Kind: controller.OutputExclusive}},
		Concurrency: optional.Some(b.concurrency),
	}
}

// MapInput implements controller.QController.
func (b *bareController) MapInput(_ context.Context, _ *zap.Logger, _ controller.QRuntime, ptr controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return []resource.Pointer{resources.NewVMConfig(ptr.ID()).Metadata()}, nil
}

// Reconcile implements controller.QController.
func (b *bareController) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	if b.onReconcile != nil {
		b.onReconcile(ptr.ID())
	}

	b.reconciles.Add(1)

	config, err := r.Get(ctx, ptr)
	if err != nil {
		return err
	}

	if !config.Metadata().Finalizers().Has(bareName) {
		return r.AddFinalizer(ctx, ptr, bareName)
	}

	return r.Modify(ctx, resources.NewVMStatus(ptr.ID()), func(res resource.Resource) error {
		res.Spec().(*resources.VMStatusSpec).State = resources.StateRunning //nolint:forcetypeassert // one type a kind

		return nil
	})
}

// runBare runs the controller on a state of its own until ctx ends.
func runBare(ctx context.Context, b *bareController) (state.State, <-chan error, error) {
	st := store.NewMemory("bare").State()

	rt, err := runtime.NewRuntime(st, zap.NewNop())
	if err != nil {
		return nil, nil, err
	}

	if err := rt.RegisterQController(b); err != nil {
		return nil, nil, err
	}

	done := make(chan error, 1)

	go func() { done <- rt.Run(ctx) }()

	return st, done, nil
}

// bareArgs are the arguments of bareJob.
type bareArgs struct{ VMs int }

// footprint is what so many VMs cost.
type footprint struct {
	// Wall is the time until all are there.
	Wall time.Duration
	// CPU until then, and until all is quiet.
	CPU, Settled time.Duration
	// Empty and Full are the resident memory before and after.
	Empty, Full memoryUse
	// Rebuilds of the runtime, and modifying calls on hypervisors.
	Rebuilds, Changes int64
}

// perVM returns the memory of one VM.
func (f footprint) perVM(vms int) float64 {
	return float64(f.Full.Resident-f.Empty.Resident) / float64(vms)
}

// mapped returns the part of it that is pages of files.
func (f footprint) mapped(vms int) string {
	return kilobytes(float64(f.Full.Mapped-f.Empty.Mapped)/float64(vms)) + " of it pages of the store's file"
}

// bareJob creates VMs in the bare controller's state.
func bareJob(ctx context.Context, c *childContext) (any, error) {
	var args bareArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	b := &bareController{concurrency: 16}

	st, done, err := runBare(ctx, b)
	if err != nil {
		cancel()

		return nil, err
	}

	defer func() {
		cancel()
		<-done
	}()

	all, err := countStatuses(ctx, st, args.VMs)
	if err != nil {
		return nil, err
	}

	var f footprint

	if f.Empty, err = resident(); err != nil {
		return nil, err
	}

	start, cpu, pacer := time.Now(), cpuTime(), store.NewPacer(0)

	for i := range args.VMs {
		if i%100 == 0 {
			if err := pacer.Wait(ctx); err != nil {
				return nil, err
			}
		}

		vm := resources.NewVMConfig(vmName(i))
		vm.TypedSpec().Memory = 128 * resources.MiB
		resources.SetUID(vm.Metadata(), vmName(i))

		if err := st.Create(ctx, vm); err != nil {
			return nil, err
		}
	}

	select {
	case err := <-all:
		if err != nil {
			return nil, err
		}
	case err := <-done:
		return nil, fmt.Errorf("the runtime ended: %w", err)
	}

	f.Wall, f.CPU = time.Since(start), cpuTime()-cpu
	f.Settled = f.CPU
	f.Full, err = resident()

	return f, err
}

func vmName(i int) string { return fmt.Sprintf("vm-%06d", i) }

func isOn(state string) bool {
	return state == resources.StateRunning || state == resources.StatePaused
}

// countStatuses returns a channel that says when so many VMs run.
func countStatuses(ctx context.Context, st state.State, vms int) (<-chan error, error) {
	events, all := make(chan []state.Event), make(chan error, 1)

	if err := st.WatchKindAggregated(ctx, resources.NewVMStatus("").Metadata(), events, state.WithBootstrapContents(true)); err != nil {
		return nil, err
	}

	go func() {
		running := make(map[string]bool, vms)

		for len(running) < vms {
			select {
			case <-ctx.Done():
				all <- ctx.Err()

				return
			case batch := <-events:
				for _, e := range batch {
					if e.Type == state.Errored {
						all <- fmt.Errorf("the watch of statuses failed: %w", e.Error)

						return
					}

					if s, ok := e.Resource.(*resources.VMStatus); ok && isOn(s.TypedSpec().State) {
						running[s.Metadata().ID()] = true
					}
				}
			}
		}

		all <- nil

		for { // a watcher that does not read would be overrun
			select {
			case <-ctx.Done():
				return
			case <-events:
			}
		}
	}()

	return all, nil
}
