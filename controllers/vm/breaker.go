package vm

import (
	"sync"
	"time"
)

const (
	// tripAfter unanswered calls in a row a host is not asked for trippedFor. One VM that hangs does not stop its
	// neighbours, since their answers count in between; a host that hangs as a whole does not keep the workers from the
	// VMs of other hosts.
	tripAfter  = 3
	trippedFor = 5 * time.Second
)

// breaker keeps VMs from asking a host that does not answer though it is connected.
type breaker struct {
	mu    sync.Mutex // guards hosts
	hosts map[string]*circuit
}

// circuit is what is known of one host. It is forgotten with the next connection.
type circuit struct {
	generation int64
	unanswered int
	// until is when the next VM may ask, as the only one for trippedFor.
	until time.Time
}

// wait returns how long a VM should not ask the host; 0: it may ask now.
func (b *breaker) wait(host string, generation int64, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()

	c := b.hosts[host]
	if c == nil || c.generation != generation || c.unanswered < tripAfter {
		return 0
	}

	if left := c.until.Sub(now); left > 0 {
		return left
	}

	c.until = now.Add(trippedFor)

	return 0
}

// answered notes whether the host answered a VM.
func (b *breaker) answered(host string, generation int64, did bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if did {
		delete(b.hosts, host)

		return
	}

	if b.hosts == nil {
		b.hosts = map[string]*circuit{}
	}

	c := b.hosts[host]
	if c == nil || c.generation != generation {
		c = &circuit{generation: generation}
		b.hosts[host] = c
	}

	if c.unanswered++; c.unanswered >= tripAfter {
		c.until = now.Add(trippedFor)
	}
}
