package hypervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// PoolOptions are what a pool may be told. The zero value of each field is its default.
type PoolOptions struct {
	// Logger gets one line for each connection that comes or goes. Default: none.
	Logger *zap.Logger
	// Registry gets the metrics. Default: none.
	Registry prometheus.Registerer
	// Steps is how many changing calls a host works on at once, of those that answer. Default 16: four calls on each of the
	// four connections that the libvirt driver has for them.
	Steps int
	// Reads is how many calls that only look at one thing a host works on at once. Default 16: four for each of the connections that the
	// libvirt driver has for them.
	Reads int
	// Abandoned is how many calls that never answered a host may hold on to before all others are refused. Each costs a
	// goroutine and what the driver keeps for it, some 20 KB. Default 64.
	Abandoned int
}

// ConnectionStatus is what is known of the connection to a host.
type ConnectionStatus struct {
	Connected bool
	// Generation rises with each successful connection to the host; 0 before the first.
	Generation int64
	// Since is when Connected became what it is.
	Since time.Time
	// LastError says why it is not connected; empty while it is.
	LastError string
	// RetryAfter is how long it waits before the next attempt, but for the fifth that chance adds; 0 while it is connected.
	RetryAfter time.Duration
	// Info is what the hypervisor said of itself last.
	Info Info
}

// Pool holds one connection to each host, and makes it anew when it is lost. It is safe for concurrent use.
type Pool struct {
	openers map[string]Opener
	gateway string
	options PoolOptions
	metrics *metrics
	// running counts the goroutines of connections, those of removed hosts too.
	running sync.WaitGroup

	mu       sync.Mutex // guards everything below, and the status and current of all connections
	closed   bool
	hosts    map[string]*connection
	watchers map[int]func(host string)
	lastID   int
	// floor is the highest generation of the hosts that were removed: a host that comes back goes on above it.
	floor int64
}

// NewPool returns a pool that connects with the opener of a URI's scheme: the whole scheme if it has one, as qemu+ssh,
// else what comes before the plus sign. gateway is the id that marks what is ours.
func NewPool(openers map[string]Opener, gateway string, options PoolOptions) *Pool {
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}

	if options.Steps <= 0 {
		options.Steps = 16
	}

	if options.Reads <= 0 {
		options.Reads = 16
	}

	if options.Abandoned <= 0 {
		options.Abandoned = 64
	}

	return &Pool{
		openers:  maps.Clone(openers),
		gateway:  gateway,
		options:  options,
		metrics:  newMetrics(options.Registry),
		hosts:    map[string]*connection{},
		watchers: map[int]func(string){},
	}
}

// Ensure starts, keeps or, when the URI is another one than before, replaces the connection to a host. It does not wait.
func (p *Pool) Ensure(host, uri string) {
	p.mu.Lock()

	old := p.hosts[host]
	if p.closed || old != nil && old.uri == uri {
		p.mu.Unlock()

		return
	}

	next := newConnection(p, host, uri)
	next.status = ConnectionStatus{Generation: p.floor, Since: time.Now()}

	if old != nil {
		next.status.Generation = old.status.Generation
		next.previous = old.done
		old.cancel()
	}

	p.hosts[host] = next
	p.metrics.connected.WithLabelValues(host).Set(0)
	p.running.Go(next.run)
	p.mu.Unlock()

	if old != nil {
		p.notify(host)
	}
}

// Remove ends the connection to a host. A host that is not there is success.
func (p *Pool) Remove(host string) {
	p.mu.Lock()

	old := p.hosts[host]
	if old == nil {
		p.mu.Unlock()

		return
	}

	delete(p.hosts, host)
	p.floor = max(p.floor, old.status.Generation)
	p.metrics.forget(host)
	p.mu.Unlock()

	old.cancel()
	p.notify(host)
}

// Driver returns the driver of a host, whose calls have deadlines, or an error that wraps ErrUnreachable while there is no
// connection. It belongs to the pool: its Close does nothing. After the connection is lost its calls return
// ErrConnectionLost, and Driver has to be asked again.
func (p *Pool) Driver(host string) (Driver, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	c := p.hosts[host]

	switch {
	case c == nil:
		return nil, fmt.Errorf("host %q: %w: there is no connection to it", host, ErrUnreachable)
	case c.current == nil && c.status.LastError == "":
		return nil, fmt.Errorf("host %q: %w: it is being connected", host, ErrUnreachable)
	case c.current == nil:
		return nil, fmt.Errorf("host %q: %w: %s", host, ErrUnreachable, c.status.LastError)
	default:
		return c.current, nil
	}
}

// Admit returns a CrowdedError where a host has been asked and has not answered for a while, so that there is no use in asking more;
// nil where there is no connection either.
func (p *Pool) Admit(host string) error {
	p.mu.Lock()
	c := p.hosts[host]
	p.mu.Unlock()

	if c == nil {
		return nil
	}

	return c.limits.admit(time.Now())
}

// Status returns what is known of the connection to a host: nothing of one that the pool does not have.
func (p *Pool) Status(host string) ConnectionStatus {
	p.mu.Lock()
	defer p.mu.Unlock()

	if c := p.hosts[host]; c != nil {
		return c.status
	}

	return ConnectionStatus{}
}

// Watch calls fn when a connection came, went, or failed for another reason or with a longer wait than before, until it is unregistered; a call
// under way may still end after that. fn must not block: it delays the connection.
func (p *Pool) Watch(fn func(host string)) (unregister func()) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.lastID++
	id := p.lastID
	p.watchers[id] = fn

	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()

		delete(p.watchers, id)
	}
}

func (p *Pool) notify(host string) {
	p.mu.Lock()
	watchers := slices.Collect(maps.Values(p.watchers))
	p.mu.Unlock()

	for _, fn := range watchers {
		fn(host)
	}
}

// Close ends all connections, and waits until they are closed, five seconds for one that hangs.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	open := slices.Collect(maps.Values(p.hosts))
	clear(p.hosts)
	p.mu.Unlock()

	for _, c := range open {
		c.cancel()
		p.metrics.forget(c.host)
	}

	p.running.Wait()
}

// opener returns what connects to a URI.
func (p *Pool) opener(uri string) (Opener, error) {
	scheme, _, _ := strings.Cut(uri, ":")
	if open := p.openers[scheme]; open != nil {
		return open, nil
	}

	family, _, _ := strings.Cut(scheme, "+")
	if open := p.openers[family]; open != nil {
		return open, nil
	}

	return nil, fmt.Errorf("error connecting to %q: %w: there is no driver for the scheme %q", uri, ErrUnsupported, scheme)
}

// open connects to a URI within the time that ctx lasts. An opener that does not heed it is abandoned; slots bounds how
// many of them there are, and what one of them returns later is closed.
func (p *Pool) open(ctx context.Context, uri string, slots chan struct{}) (Driver, error) {
	opener, err := p.opener(uri)
	if err != nil {
		return nil, err
	}

	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("error connecting: %w: %d earlier attempts have not ended", ErrUnreachable, cap(slots))
	}

	type answer struct {
		driver Driver
		err    error
	}

	answers := make(chan answer)

	go func() {
		defer func() { <-slots }()

		driver, err := safely(func() (Driver, error) { return opener(ctx, uri, p.gateway) })

		select {
		case answers <- answer{driver, err}:
		case <-ctx.Done():
			if err == nil {
				p.closeDriver(driver)
			}
		}
	}()

	select {
	case a := <-answers:
		return a.driver, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("error connecting: %w: no answer in time", ErrUnreachable)
	}
}

// closeDriver closes a driver whose error is of no use to anybody but a reader of the log.
func (p *Pool) closeDriver(driver Driver) {
	_, err := safely(func() (struct{}, error) { return struct{}{}, driver.Close() })
	if err != nil {
		p.options.Logger.Warn("a connection was not closed cleanly", zap.Error(err))
	}
}
