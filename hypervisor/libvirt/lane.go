//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"libvirt.org/go/libvirt"
)

// A connection serves one call at a time. libvirtd would take five, but where threads share a connection libvirt's client up to
// 10.3 leaves watches of its socket behind that point into stacks which are gone, and crashes the process
// (CVE-2024-4418). See docs/connections.md.
//
// Whoever finds all connections of a lane in use has another one opened, up to these limits: reads, so that a guest that is
// stuck holds up none but those who ask for it; writes; and what takes as long as a file is large.
const (
	maxReads     = 4
	maxWrites    = 8
	maxTransfers = 4
)

const (
	// growAfter is how long a call waits for a connection before another one is opened; growAt calls that wait don't.
	growAfter = 10 * time.Millisecond
	growAt    = 3
	// growAgain is when opening is tried again after it failed.
	growAgain = 5 * time.Second
	// openTime bounds the opening of another connection.
	openTime = 30 * time.Second
)

// lane is a set of connections for one kind of calls.
type lane struct {
	limit int
	open  func(context.Context) (*libvirt.Connect, error)
	// free are the connections that nobody uses.
	free chan *libvirt.Connect

	mu sync.Mutex // guards the following
	// count is how many connections there are; waiting, how many calls wait for one.
	count, waiting int
	opening, ended bool
	// failure is why the last one could not be opened, at a time; nil: it could.
	failure  error
	failedAt time.Time

	openings sync.WaitGroup
}

func newLane(limit int, open func(context.Context) (*libvirt.Connect, error)) *lane {
	return &lane{limit: limit, open: open, free: make(chan *libvirt.Connect, limit)}
}

// add gives the lane a connection that was opened for it.
func (l *lane) add(conn *libvirt.Connect) {
	l.mu.Lock()
	l.count++
	l.mu.Unlock()

	l.free <- conn
}

// take waits for a connection, which put gives back. It ends with ctx, and when lost is closed, then without a connection or an
// error.
func (l *lane) take(ctx context.Context, lost <-chan struct{}) (*libvirt.Connect, error) {
	select {
	case conn := <-l.free:
		return conn, nil
	default:
	}

	if l.wait(1) >= growAt {
		l.grow()
	}
	defer l.wait(-1)

	patience := time.NewTicker(growAfter)
	defer patience.Stop()

	for {
		select {
		case conn := <-l.free:
			return conn, nil
		case <-lost:
			return nil, nil //nolint:nilnil // the caller knows why it is lost
		case <-ctx.Done():
			return nil, l.expired(ctx)
		case <-patience.C:
			l.grow()
		}
	}
}

func (l *lane) put(conn *libvirt.Connect) { l.free <- conn }

// wait counts calls that wait and returns how many there are.
func (l *lane) wait(change int) int {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.waiting += change

	return l.waiting
}

// expired is the error of a call that got no connection in time.
func (l *lane) expired(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	err := expired(ctx)
	if l.failure != nil {
		err = fmt.Errorf("%w; all %d connections are in use, and another one could not be opened: %v", err, l.count, l.failure)
	}

	return err
}

// grow opens another connection in the background, one at a time.
func (l *lane) grow() {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.opening || l.ended || l.count == l.limit || l.failure != nil && time.Since(l.failedAt) < growAgain {
		return
	}

	l.opening = true

	l.openings.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()

		conn, err := l.open(ctx)

		l.mu.Lock()
		l.opening, l.failure, l.failedAt = false, err, time.Now()
		l.mu.Unlock()

		if err == nil {
			l.add(conn)
		}
	})
}

// drain waits until nobody uses the connections any more, and returns them. No other one is opened afterwards.
func (l *lane) drain() []*libvirt.Connect {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()

	l.openings.Wait()

	l.mu.Lock()
	all := make([]*libvirt.Connect, l.count)
	l.mu.Unlock()

	for i := range all {
		all[i] = <-l.free
	}

	return all
}

// nudge makes a call on each connection that nobody uses, until one is not answered in time.
func (l *lane) nudge(patience time.Duration) {
	for range len(l.free) {
		var conn *libvirt.Connect

		select {
		case conn = <-l.free:
		default:
			return
		}

		answered := make(chan struct{})

		go func() {
			// Whether it fails is of no interest: who makes the next call is told.
			_, _ = conn.GetLibVersion()

			l.put(conn)
			close(answered)
		}()

		select {
		case <-answered:
		case <-time.After(patience):
			return
		}
	}
}
