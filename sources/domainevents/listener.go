package domainevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/sources/intake"
)

const (
	// maxPending bounds the domains of one host whose events wait to be written, at 200 bytes each. Above it everything is
	// forgotten and listed anew.
	maxPending = 20_000
	// retryMin and retryMax bound the wait before the next try after a subscription or a list that failed while the host is connected. A
	// connection that comes back ends the wait.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// reachable is how often a host that is not connected is asked for, beside what the pool says.
	reachable = 5 * time.Second
)

// kindRelisted says that a domain was listed after events may have been lost.
const kindRelisted = hypervisor.EventKind("relisted")

// note is what a listener tells Run.
type note struct {
	host, uuid, domain string
	// vm is empty for a foreign domain.
	vm     string
	kind   hypervisor.EventKind
	detail string
	time   time.Time
	// census, if set, makes this the list of all domains that the host has.
	census map[string]bool
}

// known is what a listener knows of a domain.
type known struct{ name, vm string }

// listener follows the events of one host. Its run goroutine owns everything that the mutex does not guard.
type listener struct {
	host    string
	gateway string
	pool    Pool
	logger  *zap.Logger
	metrics *intake.Metrics
	out     chan<- note
	cancel  context.CancelFunc

	// connection says that the connection came or went, arrived that an event did. Both have room for one.
	connection, arrived chan struct{}

	mu sync.Mutex // guards pending and overflow, which the driver's goroutine writes
	// pending is the newest event of each domain by UUID: an event only says "look again".
	pending  map[string]hypervisor.Event
	overflow bool

	domains map[string]known
	// lastError is not logged again while it stays.
	lastError string
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// poke makes the listener look at its connection.
func (l *listener) poke() { signal(l.connection) }

// note takes an event. The driver calls it; it does not block.
func (l *listener) note(e hypervisor.Event) {
	l.mu.Lock()

	if _, ok := l.pending[e.DomainUUID]; !ok && len(l.pending) >= maxPending {
		l.overflow = true
		clear(l.pending)
	} else {
		l.pending[e.DomainUUID] = e
	}

	l.mu.Unlock()
	signal(l.arrived)
}

func (l *listener) taken() (events map[string]hypervisor.Event, overflow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	events, overflow = l.pending, l.overflow
	l.pending, l.overflow = map[string]hypervisor.Event{}, false

	return events, overflow
}

// run listens until ctx ends.
func (l *listener) run(ctx context.Context) {
	retry := retryMin

	for ctx.Err() == nil {
		driver, err := l.pool.Driver(l.host)
		wait := reachable

		if err == nil {
			start := time.Now()
			err = l.listen(ctx, driver)

			if time.Since(start) > retryMax {
				retry = retryMin
			}

			wait = retry
			retry = min(2*retry, retryMax)

			l.complain(ctx, err)
		}

		select {
		case <-ctx.Done():
		case <-l.connection:
		case <-time.After(wait):
		}
	}
}

// complain logs why listening ended, unless the connection did, which the pool logs, or it is the same again.
func (l *listener) complain(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil || errors.Is(err, hypervisor.ErrUnreachable) || err.Error() == l.lastError {
		return
	}

	l.lastError = err.Error()
	l.logger.Warn("error listening to domain events", zap.String("host", l.host), zap.Error(err))
}

// listen subscribes, then lists, then passes events on, until the subscription ends.
func (l *listener) listen(ctx context.Context, driver hypervisor.Driver) error {
	ctx, cancel := context.WithCancel(ctx)

	ready, ended := make(chan struct{}), make(chan error, 1)

	go func() { ended <- driver.Events(ctx, sync.OnceFunc(func() { close(ready) }), l.note) }()

	running := true

	defer func() {
		cancel()

		if running {
			<-ended
		}
	}()

	select {
	case err := <-ended:
		running = false

		return err
	case <-ready:
	}

	// Events that arrive from here on wait until the list is there.
	for retry := retryMin; ; retry = min(2*retry, retryMax) {
		err := l.relist(ctx, driver)
		if err == nil {
			break
		}

		l.complain(ctx, err)

		select {
		case err := <-ended:
			running = false

			return err
		case <-time.After(retry):
		}
	}

	l.lastError = ""

	for {
		select {
		case err := <-ended:
			running = false

			return err
		case <-l.arrived:
			if err := l.deliver(ctx, driver); err != nil {
				return err
			}
		}
	}
}

// relist reads all domains, and tells of every one of ours: those that are there, and those that were before.
func (l *listener) relist(ctx context.Context, driver hypervisor.Driver) error {
	list, err := driver.Domains(ctx)
	if err != nil {
		return err
	}

	before, now := l.domains, time.Now()
	l.domains = make(map[string]known, len(list))
	census := make(map[string]bool, len(list))

	for _, d := range list {
		k := l.identify(d)
		l.domains[d.UUID] = k
		census[d.UUID] = true
		before[d.UUID] = k
	}

	for uuid, k := range before {
		if k.vm == "" {
			continue
		}

		n := note{host: l.host, uuid: uuid, domain: k.name, vm: k.vm, kind: kindRelisted, time: now}
		if err := l.tell(ctx, n); err != nil {
			return err
		}
	}

	return l.tell(ctx, note{host: l.host, census: census})
}

// identify says whose a domain is: ours carries our mark.
func (l *listener) identify(d hypervisor.Domain) known {
	k := known{name: d.Name}

	if d.Gateway == l.gateway {
		k.vm = d.VM
	}

	return k
}

// deliver passes on what is pending.
func (l *listener) deliver(ctx context.Context, driver hypervisor.Driver) error {
	events, overflow := l.taken()

	for uuid, e := range events {
		k := l.lookUp(ctx, driver, e)

		if e.Kind == hypervisor.EventUndefined {
			delete(l.domains, uuid)
		}

		n := note{host: l.host, uuid: uuid, domain: k.name, vm: k.vm, kind: e.Kind, detail: e.Detail, time: e.Time}
		if err := l.tell(ctx, n); err != nil {
			return err
		}
	}

	if overflow {
		l.metrics.Overrun(resources.SourceDomain)

		return l.relist(ctx, driver)
	}

	return nil
}

// lookUp says whose domain an event is about. The UUID of a domain that we made says it; for others it is read once, and again
// when the domain is defined anew, because it may have been adopted.
func (l *listener) lookUp(ctx context.Context, driver hypervisor.Driver, e hypervisor.Event) known {
	if e.DomainUUID == hypervisor.DomainUUID(l.gateway, e.Domain) {
		k := known{name: e.Domain, vm: e.Domain}
		l.domains[e.DomainUUID] = k

		return k
	}

	k, ok := l.domains[e.DomainUUID]
	if ok && e.Kind != hypervisor.EventDefined {
		return k
	}

	d, err := driver.Domain(ctx, e.DomainUUID)
	if err != nil {
		if !ok {
			k = known{name: e.Domain} // gone again, or not to be asked: the next list says more
		}

		return k
	}

	k = l.identify(d)
	l.domains[e.DomainUUID] = k

	return k
}

func (l *listener) tell(ctx context.Context, n note) error {
	select {
	case l.out <- n:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
