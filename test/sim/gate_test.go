package sim

import (
	"context"
	"fmt"
	"io"
	"sync"

	"gateway/hypervisor"
	"gateway/resources"
)

// point is a kind of moment at which the process can be killed.
type point string

// The points: around a call that changes a hypervisor, before a transaction of the store, before a message, and before
// a message is acknowledged.
const (
	beforeStep    point = "before a step"
	afterStep     point = "after a step"
	beforeCommit  point = "before a commit"
	beforePublish point = "before a publish"
	beforeAck     point = "before an acknowledgement"
)

// gate is one generation of the process, seen from outside: once it is closed, nothing that the generation does has an
// effect any more.
type gate struct {
	// tear is called once, at the moment of the kill.
	tear func()
	// killed is closed at that moment.
	killed chan struct{}

	mu sync.Mutex // guards the following
	// at and left are the tripwire that is armed: the kill comes when the point was passed left times.
	at     point
	left   int
	closed bool
}

func newGate() *gate { return &gate{killed: make(chan struct{})} }

// arm lets the process be killed when it passes a point for the nth time.
func (g *gate) arm(at point, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.at, g.left = at, n
}

// pass reports whether the process still lives after it passed a point.
func (g *gate) pass(at point) bool {
	g.mu.Lock()

	if g.closed {
		g.mu.Unlock()

		return false
	}

	if g.at == at {
		if g.left--; g.left == 0 {
			g.mu.Unlock()
			g.kill()

			return false
		}
	}

	g.mu.Unlock()

	return true
}

// kill ends the process as far as the outside can see.
func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.closed {
		return
	}

	g.closed = true

	g.tear()
	close(g.killed)
}

func (g *gate) lives() bool {
	g.mu.Lock()
	defer g.mu.Unlock()

	return !g.closed
}

// errKilled is what the calls of a dead process return: nobody hears it.
var errKilled = fmt.Errorf("%w: the process was killed", hypervisor.ErrConnectionLost)

// opener is an opener whose connections belong to the generation.
func (g *gate) opener(open hypervisor.Opener, w *world) hypervisor.Opener {
	return func(ctx context.Context, uri, gateway string) (hypervisor.Driver, error) {
		if !g.lives() {
			return nil, errKilled
		}

		d, err := open(ctx, uri, gateway)
		if err != nil {
			return nil, err
		}

		return &fenced{Driver: d, gate: g, world: w}, nil
	}
}

// fenced is a driver that ends with its generation. The calls that are not here are reads.
type fenced struct {
	hypervisor.Driver

	gate  *gate
	world *world
}

// step runs a call that changes something.
func step[T any](f *fenced, name, subject string, do func() (T, error)) (value T, err error) {
	if !f.gate.pass(beforeStep) {
		return value, errKilled
	}

	value, err = do()

	if name != "" {
		f.world.called(name, subject, err)
	}

	if !f.gate.pass(afterStep) {
		var none T

		return none, errKilled
	}

	return value, err
}

func (f *fenced) stepErr(name, subject string, do func() error) error {
	_, err := step(f, name, subject, func() (struct{}, error) { return struct{}{}, do() })

	return err
}

func (f *fenced) DefineDomain(ctx context.Context, spec hypervisor.DomainSpec) (hypervisor.DefineResult, error) {
	return step(f, "define", spec.UUID, func() (hypervisor.DefineResult, error) { return f.Driver.DefineDomain(ctx, spec) })
}

func (f *fenced) StartDomain(ctx context.Context, uuid string, paused bool) error {
	return f.stepErr("start", uuid, func() error { return f.Driver.StartDomain(ctx, uuid, paused) })
}

func (f *fenced) RequestShutdown(ctx context.Context, uuid string) error {
	return f.stepErr("request shutdown", uuid, func() error { return f.Driver.RequestShutdown(ctx, uuid) })
}

func (f *fenced) ForceOff(ctx context.Context, uuid string) error {
	return f.stepErr("force off", uuid, func() error { return f.Driver.ForceOff(ctx, uuid) })
}

func (f *fenced) Pause(ctx context.Context, uuid string) error {
	return f.stepErr("pause", uuid, func() error { return f.Driver.Pause(ctx, uuid) })
}

func (f *fenced) Resume(ctx context.Context, uuid string) error {
	return f.stepErr("resume", uuid, func() error { return f.Driver.Resume(ctx, uuid) })
}

func (f *fenced) UndefineDomain(ctx context.Context, uuid string) error {
	return f.stepErr("undefine", uuid, func() error { return f.Driver.UndefineDomain(ctx, uuid) })
}

func (f *fenced) EnsureNetwork(ctx context.Context, spec hypervisor.NetworkSpec) (bool, error) {
	entries := make([]string, len(spec.Hosts))
	for i, h := range spec.Hosts {
		entries[i] = h.MAC + "=" + h.Address
	}

	changed, err := step(f, "", "", func() (bool, error) { return f.Driver.EnsureNetwork(ctx, spec) })
	if changed || err != nil {
		f.world.called("ensure network", fmt.Sprintf("%s %v", spec.Name, entries), err)
	}

	return changed, err
}

func (f *fenced) RemoveNetwork(ctx context.Context, name string) error {
	return f.stepErr("remove network", name, func() error { return f.Driver.RemoveNetwork(ctx, name) })
}

func (f *fenced) EnsureVolume(ctx context.Context, spec hypervisor.VolumeSpec) (path string, created bool, err error) {
	path, err = step(f, "ensure volume", spec.Name, func() (string, error) {
		path, made, err := f.Driver.EnsureVolume(ctx, spec)
		created = made

		return path, err
	})

	return path, created, err
}

func (f *fenced) RemoveVolume(ctx context.Context, name string) error {
	return f.stepErr("remove volume", name, func() error { return f.Driver.RemoveVolume(ctx, name) })
}

func (f *fenced) StoreImage(ctx context.Context, spec hypervisor.ImageSpec, content io.Reader) (hypervisor.ImageFile, error) {
	return step(f, "store image", spec.Name, func() (hypervisor.ImageFile, error) { return f.Driver.StoreImage(ctx, spec, content) })
}

func (f *fenced) RemoveImage(ctx context.Context, name string) error {
	return f.stepErr("remove image", name, func() error { return f.Driver.RemoveImage(ctx, name) })
}

func (f *fenced) Images(ctx context.Context) ([]hypervisor.ImageFile, error) {
	if !f.gate.lives() {
		return nil, errKilled
	}

	return f.Driver.Images(ctx)
}

func (f *fenced) Domains(ctx context.Context) ([]hypervisor.Domain, error) {
	if !f.gate.lives() {
		return nil, errKilled
	}

	return f.Driver.Domains(ctx)
}

func (f *fenced) Addresses(ctx context.Context, uuid string) ([]resources.Address, error) {
	if !f.gate.lives() {
		return nil, errKilled
	}

	return f.Driver.Addresses(ctx, uuid)
}
