package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// Patience is how long one waits for a host that makes no progress, as long as there is something else to do: what waits
	// longer is sent away, and comes again. A host answers a read in some milliseconds, one on another continent in 200.
	Patience = 250 * time.Millisecond
	// bearable is how long one waits behind others for a host that makes progress: a local daemon that defines 500 domains at once
	// lets the last of 128 wait for half a second, and to be sent away and begin anew would only be more work for it.
	bearable = 2 * time.Second
	// silentReads is how many reads have to wait for a host to be called silent. It is as many as have to fail for it to be called
	// unreachable, so that a silent host is found to be.
	silentReads = 3
	// minGap is the least time between two that were sent away and come again: what a thousand of them look at costs 2 % of a core.
	minGap = 2 * time.Millisecond
	// maxAway is the longest that somebody is sent away for: by then a host has answered, or is known not to.
	maxAway = ReadTimeout
)

// CrowdedError says that a host works on as many calls as it is given at once and makes no progress: nothing was done. It is
// an ErrBusy. Who gets it looks again after a time, and does not wait, so that others go on who have nothing to do with this host.
type CrowdedError struct {
	Host string
	// After is when to look again. Each who is sent away gets a time of its own, at the pace at which the host works.
	After time.Duration
}

// Error implements error.
func (e *CrowdedError) Error() string {
	return fmt.Sprintf("%s: host %q works on other calls, and takes long for them", ErrBusy, e.Host)
}

// Unwrap makes it an ErrBusy.
func (e *CrowdedError) Unwrap() error { return ErrBusy }

// IsCrowded returns when to look again where err is a CrowdedError.
func IsCrowded(err error) (after time.Duration, crowded bool) {
	if e, ok := errors.AsType[*CrowdedError](err); ok {
		return e.After, true
	}

	return 0, false
}

// places are what the calls of one kind have on a host. The lock of limits guards all but room and queue.
type places struct {
	// room is full when all places are taken.
	room chan struct{}
	// queue is how many wait for a place while the host makes no progress.
	queue int
	// calls are those that have a place or wait for one, in the order in which they came.
	calls []*ticket
	// moved is when a place was taken or given back last, answered when a call was answered last.
	moved, answered time.Time
	// took is how long a call had its place, of the last ones more than of earlier ones.
	took time.Duration
	// next is when the last of those that were sent away comes again.
	next time.Time
}

func newPlaces(n, queue int) *places { return &places{room: make(chan struct{}, n), queue: queue} }

// ahead counts the calls that wait for a place and came before t; nil: all of them.
func (p *places) ahead(t *ticket) (n int) {
	for _, c := range p.calls {
		if c == t {
			break
		}

		if c.placed.IsZero() {
			n++
		}
	}

	return n
}

// isSlow reports whether nothing goes on, or not fast enough for one behind so many.
func (p *places) isSlow(now time.Time, ahead int) bool {
	return now.Sub(p.moved) >= Patience || p.took*time.Duration(ahead+1)/time.Duration(cap(p.room)) > bearable
}

// isSilent reports whether calls wait and none is answered.
func (p *places) isSilent(now time.Time) bool {
	if now.Sub(p.answered) < Patience || len(p.calls) < silentReads {
		return false
	}

	return now.Sub(p.calls[silentReads-1].began) >= Patience
}

// comeAgain returns when to come again.
func (p *places) comeAgain(now time.Time) time.Duration {
	gap := max(minGap, p.took/time.Duration(cap(p.room)))

	p.next = p.next.Add(gap)

	// Where they are more than it can do in that time, they are spread over it.
	if soonest := now.Add(Patience); p.next.Before(soonest) {
		p.next = soonest
	} else if p.next.After(now.Add(maxAway)) {
		p.next = soonest.Add(rand.N(min(gap, maxAway-Patience)))
	}

	return p.next.Sub(now)
}

// take gives a place to a ticket.
func (p *places) take(t *ticket, now time.Time) { t.placed, p.moved = now, now }

// leave takes a ticket off, and gives its place back if it has one.
func (p *places) leave(t *ticket, now time.Time) {
	if i := slices.Index(p.calls, t); i >= 0 {
		p.calls = slices.Delete(p.calls, i, i+1)
	}

	if !t.placed.IsZero() {
		p.moved = now
		p.took += (now.Sub(t.placed) - p.took) / 4
		<-p.room
	}
}

// place waits for a place: in the queue as long as the call may take, behind it as long as the host makes progress.
func (l *limits) place(ctx context.Context, gone <-chan struct{}, t *ticket, timeout time.Duration) error {
	if l.tryPlace(t) {
		return nil
	}

	if l.sendsAway(t, time.Now()) {
		return l.crowded(t.places)
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	look := time.NewTimer(Patience)
	defer look.Stop()

	for {
		select {
		case t.places.room <- struct{}{}:
			l.mu.Lock()
			t.places.take(t, time.Now())
			l.mu.Unlock()

			return nil
		case <-look.C:
			if l.sendsAway(t, time.Now()) {
				return l.crowded(t.places)
			}

			look.Reset(Patience)
		case <-gone:
			return ErrConnectionLost
		case <-ctx.Done():
			return fmt.Errorf("%w: the host works on %d other calls", ErrBusy, cap(t.places.room))
		}
	}
}

func (l *limits) tryPlace(t *ticket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	select {
	case t.places.room <- struct{}{}:
		t.places.take(t, time.Now())

		return true
	default:
		return false
	}
}

// sendsAway reports whether a call that has no place should not wait for one: others do already, and it does not go on.
func (l *limits) sendsAway(t *ticket, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	ahead := t.places.ahead(t)

	return ahead >= t.places.queue && t.places.isSlow(now, ahead)
}

func (l *limits) crowded(p *places) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.sendAway(p, time.Now())
}

// sendAway is the answer to who is sent away. The caller holds the lock.
func (l *limits) sendAway(p *places, now time.Time) error {
	l.sentAway.Inc()

	return &CrowdedError{Host: l.host, After: p.comeAgain(now)}
}

// admit refuses who would only come to wait, since reads wait already and none is answered.
func (l *limits) admit(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.reads.isSilent(now) {
		return nil
	}

	return l.sendAway(l.reads, now)
}
