package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gateway/hypervisor"
)

// driver is one connection to a host.
type driver struct {
	host    *Host
	gateway string
	// done is closed when the connection ends; lost says why, and is written before under the host's lock.
	done chan struct{}
	lost error
}

var _ hypervisor.Driver = (*driver)(nil)

// op is one call, for errors, counts and faults.
type op struct {
	call, doing, subject string
}

// open is the opener of the world.
func (w *World) open(ctx context.Context, uri, gateway string) (hypervisor.Driver, error) {
	o, err := parseURI(uri)
	if err != nil {
		return nil, err
	}

	h := w.Host(o.name)
	d := &driver{host: h, gateway: gateway, done: make(chan struct{})}

	if err := d.do(ctx, op{call: "Open", doing: "connecting"}, func() error {
		return h.accept(d, o)
	}); err != nil {
		return nil, err
	}

	return d, nil
}

// accept adds a connection. The latest URI says how the host behaves.
func (h *Host) accept(d *driver, o options) error {
	if h.dead {
		return fmt.Errorf("%w: the host is down", hypervisor.ErrUnreachable)
	}

	if err := h.useFile(o.state); err != nil {
		return err
	}

	if o.faults != (Faults{}) {
		h.faults = o.faults
	}

	h.options = o
	h.drivers[d] = struct{}{}

	return nil
}

// do runs one call: it counts it, lets happen what the faults say, and returns only when what the call changed is kept.
func (d *driver) do(ctx context.Context, o op, effect func() error) error {
	err := d.suffer(ctx, o, effect)
	if err == nil {
		return nil
	}

	if o.subject == "" {
		return fmt.Errorf("error %s on sim://%s: %w", o.doing, d.host.name, err)
	}

	return fmt.Errorf("error %s %q on sim://%s: %w", o.doing, o.subject, d.host.name, err)
}

func (d *driver) suffer(ctx context.Context, o op, effect func() error) error {
	h := d.host

	h.mu.Lock()
	h.calls[o.call]++
	p := h.plan(o.call, o.subject)
	h.mu.Unlock()

	if err := d.delay(ctx, p); err != nil {
		return err
	}

	if p.loseBefore {
		return d.lose(errors.New("lost before the call"))
	}

	if p.before != nil {
		return p.before
	}

	if err := d.change(o.call, effect); err != nil {
		return err
	}

	if p.loseAfter {
		return d.lose(errors.New("lost after the call"))
	}

	return p.after
}

// delay is the time that passes before a call takes effect.
func (d *driver) delay(ctx context.Context, p plan) error {
	if ctx.Err() != nil {
		return expired(ctx)
	}

	if p.stuck != nil {
		select {
		case <-p.stuck:
		case <-d.done:
			return d.lost
		}
	}

	if p.hang {
		select {
		case <-ctx.Done():
			return expired(ctx)
		case <-d.done:
			return d.lost
		}
	}

	if p.delay > 0 {
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return expired(ctx)
		case <-d.done:
			return d.lost
		}
	}

	return nil
}

// change runs the effect of a call under the host's lock, and waits until what it changed is kept.
func (d *driver) change(call string, effect func() error) error {
	h := d.host

	h.mu.Lock()

	if d.lost != nil {
		h.mu.Unlock()

		return d.lost
	}

	before := h.recorded
	err := effect()
	commit := func() error { return nil }

	if h.recorded != before {
		h.changes[call]++
		commit = h.commit()
	}

	h.mu.Unlock()

	return firstError(err, commit())
}

// expired is the error of a call whose context ended. It does not wrap context.Canceled, which COSI takes for success.
func expired(ctx context.Context) error {
	return fmt.Errorf("%w: %v", hypervisor.ErrUnreachable, context.Cause(ctx))
}

// lose ends the connection from within a call, and returns what its callers see.
func (d *driver) lose(why error) error {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()

	d.loseLocked(fmt.Errorf("%w: %w", hypervisor.ErrConnectionLost, why))

	return d.lost
}

func (d *driver) loseLocked(err error) {
	if d.lost == nil {
		d.lost = err
		close(d.done)
		delete(d.host.drivers, d)
	}
}

// Close implements hypervisor.Driver.
func (d *driver) Close() error {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()

	d.loseLocked(fmt.Errorf("%w: closed", hypervisor.ErrConnectionLost))

	return nil
}

// Info implements hypervisor.Driver.
func (d *driver) Info(ctx context.Context) (info hypervisor.Info, err error) {
	err = d.do(ctx, op{call: "Info", doing: "describing the host"}, func() error {
		info = hypervisor.Info{
			Driver: "SIM", Version: "1", Arch: "x86_64", Hostname: d.host.name, Capacity: d.host.options.capacity,
		}

		return nil
	})

	return info, err
}
