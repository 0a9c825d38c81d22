//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// maxPending is how much of a console waits in either direction: a guest that prints faster than its reader reads, or one
// that does not read, is held up then.
const maxPending = 256 << 10

// console is a stream of libvirt's, which the event loop reads and writes: a blocking one can't be given up. It has a
// connection of its own, so that it takes no place of calls.
type console struct {
	conn   *libvirt.Connect
	stream *libvirt.Stream
	done   func()

	mu      sync.Mutex // guards the following
	changed *sync.Cond
	in, out []byte
	// wants are the events that the loop is asked for.
	wants libvirt.StreamEventType
	// ended is why it has ended; nil while it has not.
	ended error
}

// Console implements hypervisor.Driver.
func (d *driver) Console(ctx context.Context, uuid string, force bool) (hypervisor.Console, error) {
	c, err := d.openConsole(ctx, uuid, force)
	if err != nil {
		return nil, fmt.Errorf("error attaching to the console of domain %q: %w", uuid, classify(err))
	}

	return c, nil
}

func (d *driver) openConsole(ctx context.Context, uuid string, force bool) (_ *console, err error) {
	select {
	case d.consoles <- struct{}{}:
	default:
		return nil, fmt.Errorf("%w: %d consoles of the host are attached already", hypervisor.ErrBusy, cap(d.consoles))
	}

	release := func() { <-d.consoles }

	conn, err := connect(ctx, d.uri)
	if err != nil {
		release()

		return nil, err
	}

	stream, err := d.attach(conn, uuid, force)
	if err != nil {
		closeQuietly(conn)
		release()

		return nil, err
	}

	c := &console{conn: conn, stream: stream, done: release, wants: wantsRead}
	c.changed = sync.NewCond(&c.mu)

	if err := stream.EventAddCallback(c.wants, c.onEvent); err != nil {
		return nil, errors.Join(err, c.Close())
	}

	go c.watch(d.lost)

	return c, nil
}

const wantsRead = libvirt.STREAM_EVENT_READABLE | libvirt.STREAM_EVENT_HANGUP | libvirt.STREAM_EVENT_ERROR

// attach opens the console of one of our domains that is on.
func (d *driver) attach(conn *libvirt.Connect, uuid string, force bool) (*libvirt.Stream, error) {
	dom, err := conn.LookupDomainByUUIDString(uuid)
	if err != nil {
		return nil, err
	}
	defer freeDomain(dom)

	doc, mark, err := readDefinition(dom)
	if err != nil {
		return nil, err
	}

	state, _, err := dom.GetState()

	switch {
	case err != nil:
		return nil, err
	case mark.Gateway != d.gateway:
		return nil, hypervisor.ErrForeign
	case !isOn(state):
		return nil, hypervisor.ErrOff
	case !definition.HasConsole(doc.Domain):
		return nil, hypervisor.ErrNoConsole
	}

	stream, err := conn.NewStream(libvirt.STREAM_NONBLOCK)
	if err != nil {
		return nil, err
	}

	var flags libvirt.DomainConsoleFlags
	if force {
		flags = libvirt.DOMAIN_CONSOLE_FORCE
	}

	if err := dom.OpenConsole("", stream, flags); err != nil {
		freeStream(stream)

		return nil, consoleError(err)
	}

	return stream, nil
}

// consoleError says what libvirt has only a text for.
func consoleError(err error) error {
	switch {
	case strings.Contains(err.Error(), "Active console session exists"):
		return hypervisor.ErrAttached
	case strings.Contains(err.Error(), "domain is not running"), isCode(err, libvirt.ERR_OPERATION_INVALID):
		return hypervisor.ErrOff
	case strings.Contains(err.Error(), "cannot find console device"), strings.Contains(err.Error(), "is not using a PTY"):
		return hypervisor.ErrNoConsole
	default:
		return err
	}
}

// watch ends the console with the driver.
func (c *console) watch(lost <-chan struct{}) {
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		c.mu.Lock()
		defer c.mu.Unlock()

		for c.ended == nil {
			c.changed.Wait()
		}
	}()

	select {
	case <-lost:
		c.mu.Lock()
		c.end(io.EOF)
		c.mu.Unlock()
	case <-ended:
	}
}

// onEvent is called by the event loop. It never blocks.
func (c *console) onEvent(stream *libvirt.Stream, events libvirt.StreamEventType) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ended != nil {
		return
	}

	if events&libvirt.STREAM_EVENT_READABLE != 0 {
		c.receive(stream)
	}

	if events&libvirt.STREAM_EVENT_WRITABLE != 0 && c.ended == nil {
		c.send(stream)
	}

	if events&(libvirt.STREAM_EVENT_HANGUP|libvirt.STREAM_EVENT_ERROR) != 0 {
		c.end(io.EOF)
	}

	c.ask()
}

// receive takes what the guest printed.
func (c *console) receive(stream *libvirt.Stream) {
	buffer := make([]byte, 16<<10)

	for len(c.in) < maxPending {
		n, err := stream.Recv(buffer)
		if err != nil {
			c.end(io.EOF)

			return
		}

		if n <= 0 { // there is no more now
			return
		}

		c.in = append(c.in, buffer[:n]...)
		c.changed.Broadcast()
	}
}

// send gives the guest what was typed.
func (c *console) send(stream *libvirt.Stream) {
	for len(c.out) > 0 {
		n, err := stream.Send(c.out)
		if err != nil {
			c.end(io.EOF)

			return
		}

		if n <= 0 { // it takes no more now
			return
		}

		c.out = c.out[n:]
		c.changed.Broadcast()
	}
}

// ask tells the loop which events matter now. The caller holds the lock.
func (c *console) ask() {
	wants := libvirt.STREAM_EVENT_HANGUP | libvirt.STREAM_EVENT_ERROR
	if len(c.in) < maxPending {
		wants |= libvirt.STREAM_EVENT_READABLE
	}

	if len(c.out) > 0 {
		wants |= libvirt.STREAM_EVENT_WRITABLE
	}

	if c.ended != nil || wants == c.wants {
		return
	}

	c.wants = wants
	if err := c.stream.EventUpdateCallback(wants); err != nil {
		c.end(io.EOF)
	}
}

// end lets go of the stream, once. Aborting it waits for the daemon: that is not for who holds the lock, nor for the loop.
func (c *console) end(why error) {
	if c.ended != nil {
		return
	}

	c.ended = why
	c.changed.Broadcast()

	go func() {
		// They fail where the stream or its connection is gone, which is what is wanted.
		_ = c.stream.EventRemoveCallback()
		_ = c.stream.Abort()

		freeStream(c.stream)
		closeQuietly(c.conn)
		c.done()
	}()
}

// Read implements io.Reader.
func (c *console) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for len(c.in) == 0 {
		if c.ended != nil {
			return 0, c.ended
		}

		c.changed.Wait()
	}

	n := copy(p, c.in)
	c.in = c.in[n:]
	c.ask()

	return n, nil
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for n < len(p) {
		for len(c.out) >= maxPending && c.ended == nil {
			c.changed.Wait()
		}

		if c.ended != nil {
			return n, io.ErrClosedPipe
		}

		part := p[n:min(len(p), n+maxPending)]
		c.out = append(c.out, part...)
		n += len(part)
		c.ask()
	}

	return n, nil
}

// Close implements io.Closer.
func (c *console) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.end(io.EOF)

	return nil
}
