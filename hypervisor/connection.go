package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"
)

const (
	// openTimeout is how long a connection may take: ssh to a host that is asleep, or a daemon that was just started on a
	// busy machine and asks each of its emulators first what it can do.
	openTimeout = 45 * time.Second
	// maxOpeners is how many attempts of one host may hang at once, where the opener does not heed its context.
	maxOpeners = 3
	// pingInterval is how often a connection is asked whether it still is one.
	pingInterval = 10 * time.Second
	// maxMissed is how many of these questions in a row may go without an answer: a daemon that is busy for a moment is
	// not gone, and connecting again would only add to what it has to do. One that is gone is found by its closed
	// connection or its keepalive, which do not wait for this.
	maxMissed = 2
	// The wait between attempts doubles from minBackoff to maxBackoff, and up to a fifth is added, so that hosts that went
	// together do not come back together: 1 s to 30 s in all.
	minBackoff = time.Second
	maxBackoff = 25 * time.Second
	// maxLocalBackoff bounds it for a daemon on this machine: to find that its socket is not there costs nothing, and a
	// daemon that was restarted is used again within 4 s.
	maxLocalBackoff = 3 * time.Second
	// steady is how long a connection must have lasted for the next wait to begin at minBackoff again.
	steady = 30 * time.Second
)

// connection keeps one host connected through one URI, in the goroutine of run.
type connection struct {
	pool      *Pool
	host, uri string
	ctx       context.Context
	cancel    context.CancelFunc
	// done is closed when run has ended; previous is that of the connection that this one replaces.
	done     chan struct{}
	previous <-chan struct{}
	limits   *limits
	openers  chan struct{}

	// The pool's lock guards these.
	status  ConnectionStatus
	current *guarded // nil while it is not connected
}

func newConnection(p *Pool, host, uri string) *connection {
	ctx, cancel := context.WithCancel(context.Background())

	return &connection{
		pool: p, host: host, uri: uri, ctx: ctx, cancel: cancel,
		done:    make(chan struct{}),
		limits:  newLimits(host, p.options, p.metrics),
		openers: make(chan struct{}, maxOpeners),
	}
}

// run connects again and again until the connection is cancelled.
func (c *connection) run() {
	defer close(c.done)

	if c.previous != nil {
		<-c.previous
	}

	for failures := 0; c.ctx.Err() == nil; failures++ {
		lasted, err := c.session()
		if c.ctx.Err() != nil {
			return
		}

		if lasted > steady {
			failures = 0
		}

		wait := backoff(failures, c.longest())
		c.failed(err, wait)

		select {
		case <-c.ctx.Done():
		case <-time.After(wait + rand.N(wait/5)):
		}
	}
}

// session is one connection from its attempt to its loss. It returns how long it stood, and why it ended.
func (c *connection) session() (lasted time.Duration, err error) {
	g, info, err := c.connect()
	if err != nil {
		return 0, err
	}

	c.established(g, info)

	since := time.Now()
	err = c.watch(g)

	g.giveUp()
	c.failed(err, minBackoff)
	c.close(g.driver)

	return time.Since(since), err
}

// connect opens the connection and asks the hypervisor who it is: one that can't say is not connected.
func (c *connection) connect() (*guarded, Info, error) {
	ctx, cancel := context.WithTimeout(c.ctx, openTimeout)
	defer cancel()

	driver, err := c.pool.open(ctx, c.uri, c.openers)
	if err != nil {
		return nil, Info{}, err
	}

	g := newGuarded(c.host, driver, c.limits, c.pool.metrics)

	info, err := g.Info(ctx)
	if err != nil {
		g.giveUp()
		c.close(driver)

		return nil, Info{}, err
	}

	return g, info, nil
}

// watch returns when the connection is lost, or cancelled.
func (c *connection) watch(g *guarded) error {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()

	for missed := 0; ; {
		select {
		case <-c.ctx.Done():
			return nil
		case err := <-g.lost:
			return err
		case <-ticker.C:
			info, err := g.Info(c.ctx)
			if missed++; err != nil && missed < maxMissed && errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrConnectionLost) {
				continue
			}

			if err != nil {
				return err
			}

			missed = 0
			c.refresh(info)
		}
	}
}

// close closes a driver, and waits for it as long as for a read. One that hangs is left behind.
func (c *connection) close(driver Driver) {
	closed := make(chan struct{})

	go func() {
		defer close(closed)

		c.pool.closeDriver(driver)
	}()

	select {
	case <-closed:
	case <-time.After(ReadTimeout):
		c.pool.options.Logger.Warn("a connection does not close", zap.String("host", c.host))
	}
}

// established gives the driver to callers.
func (c *connection) established(g *guarded, info Info) {
	c.update(func(s *ConnectionStatus) bool {
		*s = ConnectionStatus{Connected: true, Generation: s.Generation + 1, Since: time.Now(), Info: info}
		c.current = g

		c.pool.metrics.connected.WithLabelValues(c.host).Set(1)
		c.pool.options.Logger.Info("host connected", zap.String("host", c.host), zap.String("driver", info.Driver),
			zap.String("version", info.Version), zap.Int64("generation", s.Generation))

		return true
	})
}

// refresh takes over what the hypervisor says of itself, as its capacity may change.
func (c *connection) refresh(info Info) {
	c.update(func(s *ConnectionStatus) bool {
		changed := s.Info != info
		s.Info = info

		return changed
	})
}

// failed takes the driver away from callers, if there was one, and notes why, and when it is tried again.
func (c *connection) failed(err error, wait time.Duration) {
	if err == nil { // it was cancelled, and nobody asks any more
		return
	}

	c.update(func(s *ConnectionStatus) bool {
		news := s.LastError != err.Error() || s.Connected
		changed := news || s.RetryAfter != wait
		s.LastError, s.RetryAfter = err.Error(), wait
		c.current = nil

		if s.Connected {
			s.Connected, s.Since = false, time.Now()
		}

		c.pool.metrics.connected.WithLabelValues(c.host).Set(0)

		if news {
			c.pool.options.Logger.Warn("host not connected", zap.String("host", c.host), zap.Error(err))
		}

		return changed
	})
}

// update changes the status of a connection that is still the host's, and tells the watchers when change says so.
func (c *connection) update(change func(*ConnectionStatus) bool) {
	c.pool.mu.Lock()
	tell := c.pool.hosts[c.host] == c && change(&c.status)
	c.pool.mu.Unlock()

	if tell {
		c.pool.notify(c.host)
	}
}

// backoff returns the wait after a number of failures in a row, the first being 0, without what chance adds.
func backoff(failures int, longest time.Duration) time.Duration {
	wait := minBackoff
	for range failures {
		if wait = min(2*wait, longest); wait == longest {
			break
		}
	}

	return wait
}

// longest is the longest wait between attempts.
func (c *connection) longest() time.Duration {
	switch scheme, _, _ := strings.Cut(c.uri, ":"); scheme {
	case "qemu", "qemu+unix", "test", "test+unix":
		return maxLocalBackoff
	default:
		return maxBackoff
	}
}

// safely turns a panic of a driver into an error: it runs in goroutines of the pool, where it would end the process.
func safely[T any](fn func() (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in the hypervisor driver: %v", r)
		}
	}()

	return fn()
}
