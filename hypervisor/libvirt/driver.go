//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// driver is a hypervisor through libvirt.
type driver struct {
	uri, gateway string

	connections []*libvirt.Connect
	// reads is the connection for reading and for events; writes are those for changes and whatever waits for a guest.
	reads, writes lane
	locks         *locks
	// consoles has a place for each console that is attached.
	consoles chan struct{}

	loseOnce sync.Once
	// lost is closed when the connection is lost or closed; cause says why and is written before.
	lost  chan struct{}
	cause error

	mu sync.Mutex // guards the following
	// host is what new domains are made of.
	host definition.Host
	// closed is closed when everything is let go of; nil before Close.
	closed chan struct{}
	// copies are the volumes that are being copied, and those whose end nobody has seen yet, by name.
	copies map[string]*copying

	subscribers subscribers
	// background counts what uses the connections beside the calls.
	background sync.WaitGroup
}

var _ hypervisor.Driver = (*driver)(nil)

// Open is the hypervisor.Opener of libvirt's URIs: qemu:///system, qemu:///session, qemu+unix, qemu+ssh, qemu+tls,
// test:///default, test+unix. Which of them may be used is the caller's policy.
func Open(ctx context.Context, uri, gateway string) (hypervisor.Driver, error) {
	d, err := open(ctx, uri, gateway)
	if err != nil {
		return nil, fmt.Errorf("error connecting to %s: %w", uri, err)
	}

	return d, nil
}

func open(ctx context.Context, uri, gateway string) (*driver, error) {
	if err := startEventLoop(); err != nil {
		return nil, fmt.Errorf("%w: %w", hypervisor.ErrUnreachable, err)
	}

	d := &driver{
		uri: uri, gateway: gateway, locks: newLocks(),
		lost: make(chan struct{}), consoles: make(chan struct{}, hypervisor.MaxConsoles),
	}

	for range 1 + writeConnections {
		conn, err := connect(ctx, uri)
		if err != nil {
			d.abort()

			return nil, err
		}

		d.connections = append(d.connections, conn)
	}

	d.reads, d.writes = newLane(d.connections[0]), newLane(d.connections[1:]...)

	for _, conn := range d.connections {
		if err := conn.RegisterCloseCallback(d.onClose); err != nil {
			d.abort()

			return nil, connectError(err)
		}
	}

	host, err := call(ctx, d, request{doing: "reading the capabilities", lane: d.reads}, readHost)
	if err != nil {
		d.abort()

		return nil, err
	}

	d.host = host

	return d, nil
}

// onClose is called by the event loop when a connection ends that we did not close.
func (d *driver) onClose(_ *libvirt.Connect, reason libvirt.ConnectCloseReason) {
	d.lose(fmt.Errorf("%w: %s", hypervisor.ErrConnectionLost, closeReason(reason)))
}

func closeReason(reason libvirt.ConnectCloseReason) string {
	switch reason {
	case libvirt.CONNECT_CLOSE_REASON_ERROR:
		return "the connection failed"
	case libvirt.CONNECT_CLOSE_REASON_EOF:
		return "the daemon closed it"
	case libvirt.CONNECT_CLOSE_REASON_KEEPALIVE:
		return "the daemon did not answer keepalives"
	case libvirt.CONNECT_CLOSE_REASON_CLIENT:
		return "closed"
	default:
		return fmt.Sprintf("reason %d", reason)
	}
}

// lose ends the driver: without one of its connections it is no whole one.
func (d *driver) lose(cause error) {
	d.loseOnce.Do(func() {
		d.cause = cause
		close(d.lost)
	})
}

func (d *driver) isLost() bool {
	select {
	case <-d.lost:
		return true
	default:
		return false
	}
}

// failed reports whether a connection ended by itself, before Close. It may be called when lost is closed.
func (d *driver) failed() bool { return !errors.Is(d.cause, errClosed) }

// lostError may be called when lost is closed.
func (d *driver) lostError() error { return d.cause }

// errClosed is the cause of a connection's end that we asked for.
var errClosed = errors.New("closed")

// closeGrace is how long Close waits for connections to end properly. A hung daemon doesn't let them: what is left then
// ends with the keepalive.
const closeGrace = 2 * time.Second

// Close implements hypervisor.Driver.
func (d *driver) Close() error {
	d.lose(fmt.Errorf("%w: %w", hypervisor.ErrConnectionLost, errClosed))

	d.mu.Lock()
	if d.closed == nil {
		d.closed = make(chan struct{})

		go d.teardown(d.closed)
	}
	closed := d.closed
	d.mu.Unlock()

	select {
	case <-closed:
	case <-time.After(closeGrace):
	}

	return nil
}

// teardown waits for the calls under way, which use the connections, then lets go of callbacks and connections. A callback
// that is still registered would keep its connection, and its descriptor, for ever.
func (d *driver) teardown(closed chan struct{}) {
	defer close(closed)

	for _, l := range []lane{d.reads, d.writes} {
		for range cap(l) {
			<-l
		}
	}

	d.background.Wait()

	// libvirt's client crashes now and then when callbacks are taken off, or the last reference goes, while its event loop is ending a
	// connection whose daemon hung. Such a connection is left as it is: its socket is closed by then.
	if d.failed() {
		return
	}

	for _, id := range d.subscribers.registered() {
		// It fails where the connection is lost: then there is nothing registered any more.
		_ = d.connections[0].DomainEventDeregister(id)
	}

	d.closeConnections()
}

// abort closes what was opened of a driver that will not be.
func (d *driver) abort() {
	d.lose(fmt.Errorf("%w: %w", hypervisor.ErrConnectionLost, errClosed))

	if d.reads == nil {
		go d.closeConnections()

		return
	}

	go d.teardown(make(chan struct{}))
}

func (d *driver) closeConnections() {
	for _, conn := range d.connections {
		// It fails where none was registered.
		_ = conn.UnregisterCloseCallback()

		closeQuietly(conn)
	}
}

func (d *driver) hold(ctx context.Context, key string) (*hold, error) {
	if key == "" {
		return nil, nil
	}

	return d.locks.take(ctx, key)
}

func (d *driver) release(h *hold) {
	if h != nil {
		d.locks.release(h)
	}
}

func (d *driver) abandon(h *hold) {
	if h != nil {
		d.locks.abandon(h)
	}
}

// madeOf returns what new domains are made of.
func (d *driver) madeOf() definition.Host {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.host
}
