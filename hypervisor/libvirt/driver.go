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

	// reads are the connections for reading, writes those for changes and whatever waits for a guest, transfers those for files.
	reads, writes, transfers *lane
	locks                    *locks
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

	d.reads, d.writes, d.transfers = newLane(maxReads, d.connect), newLane(maxWrites, d.connect), newLane(maxTransfers, d.connect)

	for _, l := range []*lane{d.reads, d.writes} {
		conn, err := d.connect(ctx)
		if err != nil {
			d.abort()

			return nil, err
		}

		l.add(conn)
	}

	host, err := call(ctx, d, request{doing: "reading the capabilities", lane: d.reads}, readHost)
	if err != nil {
		d.abort()

		return nil, err
	}

	d.host = host
	d.background.Go(d.nudge)

	return d, nil
}

// connect opens a connection without which the driver is no whole one.
func (d *driver) connect(ctx context.Context) (*libvirt.Connect, error) {
	conn, err := connect(ctx, d.uri)
	if err != nil {
		return nil, err
	}

	if err := conn.RegisterCloseCallback(d.onClose); err != nil {
		closeQuietly(conn)

		return nil, connectError(err)
	}

	return conn, nil
}

func (d *driver) lanes() []*lane { return []*lane{d.reads, d.writes, d.transfers} }

// nudge keeps libvirt from pinging on connections that nobody uses; see nudgeInterval.
func (d *driver) nudge() {
	tick := time.NewTicker(nudgeInterval)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			for _, l := range d.lanes() {
				l.nudge(nudgeInterval / 4)
			}
		case <-d.lost:
			return
		}
	}
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

	d.background.Wait()

	var connections []*libvirt.Connect
	for _, l := range d.lanes() {
		connections = append(connections, l.drain()...)
	}

	d.subscribers.deregister()

	for _, conn := range connections {
		// It fails where the connection is lost: then there is nothing registered any more.
		_ = conn.UnregisterCloseCallback()

		closeQuietly(conn)
	}
}

// abort closes what was opened of a driver that will not be.
func (d *driver) abort() {
	d.lose(fmt.Errorf("%w: %w", hypervisor.ErrConnectionLost, errClosed))

	go d.teardown(make(chan struct{}))
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
