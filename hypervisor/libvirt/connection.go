//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
)

// Keepalive finds a daemon that hangs within interval × (count + 1) = 20 s. Without it a call to one never returns.
//
// The event loop sends its ping, which may meet a call that begins on the connection: that is a connection shared by two
// threads, see maxReads. A connection that nobody uses is therefore nudged, so that a ping is sent only where a call is under
// way and was not answered for long.
const (
	keepaliveInterval = 5
	keepaliveCount    = 3
	nudgeInterval     = 2 * time.Second
)

// connect opens one connection. virConnectOpen has no timeout: when ctx ends first, it is left to finish by itself.
func connect(ctx context.Context, uri string) (*libvirt.Connect, error) {
	type result struct {
		conn *libvirt.Connect
		err  error
	}

	opened := make(chan result, 1)

	go func() {
		conn, err := libvirt.NewConnect(uri)
		opened <- result{conn, err}
	}()

	select {
	case r := <-opened:
		if r.err != nil {
			return nil, connectError(r.err)
		}

		return r.conn, keepAlive(r.conn)
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				closeQuietly(r.conn)
			}
		}()

		return nil, fmt.Errorf("%w: no answer in time: %v", hypervisor.ErrUnreachable, context.Cause(ctx))
	}
}

// connectError is classify for a connection that was not made: whatever the reason, the host could not be asked.
func connectError(err error) error {
	err = classify(explainMissing(err))
	if errors.Is(err, hypervisor.ErrUnreachable) {
		return err
	}

	return fmt.Errorf("%w: %w", hypervisor.ErrUnreachable, err)
}

// keepAlive switches keepalive on where there is a daemon to watch: a hypervisor in this process has none.
func keepAlive(conn *libvirt.Connect) error {
	err := conn.SetKeepAlive(keepaliveInterval, keepaliveCount)
	if err == nil || isCode(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_OPERATION_UNSUPPORTED) {
		return nil
	}

	closeQuietly(conn)

	return connectError(err)
}

// closeQuietly closes a connection that nobody uses any more. There is nothing left to do where that fails.
func closeQuietly(conn *libvirt.Connect) { _, _ = conn.Close() }

// request is one call through a lane.
type request struct {
	// doing and subject are for errors: "starting domain", its UUID.
	doing, subject string
	lane           *lane
	// key names the object that the call changes; empty: it changes nothing.
	key string
}

func (r request) wrap(err error) error {
	if err == nil {
		return nil
	}

	if r.subject == "" {
		return fmt.Errorf("error %s: %w", r.doing, err)
	}

	return fmt.Errorf("error %s %q: %w", r.doing, r.subject, err)
}

// call runs fn with a connection of the lane, and returns no later than ctx ends or the connection is lost. libvirt can't
// cancel a call: fn then goes on by itself, and keeps its connection, and its object, until it comes back.
func call[T any](ctx context.Context, d *driver, r request, fn func(*libvirt.Connect) (T, error)) (T, error) {
	value, err := runCall(ctx, d, r, fn)

	return value, r.wrap(classify(err))
}

func runCall[T any](ctx context.Context, d *driver, r request, fn func(*libvirt.Connect) (T, error)) (T, error) {
	var none T

	if d.isLost() {
		return none, d.lostError()
	}

	object, err := d.hold(ctx, r.key)
	if err != nil {
		return none, err
	}

	conn, err := d.take(ctx, r.lane)
	if err != nil {
		d.release(object)

		return none, err
	}

	type result struct {
		value T
		err   error
	}

	done := make(chan result, 1)

	go func() {
		value, err := fn(conn)

		d.release(object)
		r.lane.put(conn)
		done <- result{value, err}
	}()

	select {
	case answer := <-done:
		return answer.value, answer.err
	case <-d.lost:
		d.abandon(object)

		return none, d.lostError()
	case <-ctx.Done():
		d.abandon(object)

		return none, expired(ctx)
	}
}

// take waits for a connection of a lane. It fails when the driver is lost.
func (d *driver) take(ctx context.Context, l *lane) (*libvirt.Connect, error) {
	conn, err := l.take(ctx, d.lost)
	if conn == nil && err == nil {
		err = d.lostError()
	}

	return conn, err
}

// expired is the error of a call whose context ended. It does not wrap context.Canceled, which COSI takes for success.
func expired(ctx context.Context) error {
	return fmt.Errorf("%w: no answer in time: %v", hypervisor.ErrUnreachable, context.Cause(ctx))
}

// do is call for what returns nothing.
func do(ctx context.Context, d *driver, r request, fn func(*libvirt.Connect) error) error {
	_, err := call(ctx, d, r, func(c *libvirt.Connect) (struct{}, error) { return struct{}{}, fn(c) })

	return err
}
