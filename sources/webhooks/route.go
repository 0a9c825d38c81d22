package webhooks

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"gateway/resources"
)

// route is a compiled Webhook document. It is immutable but for its counters and its limiter.
type route struct {
	name     string
	uid      string
	revision int64
	spec     resources.WebhookSpec
	verifier verifier
	allow    []netip.Prefix
	proxies  []netip.Prefix
	limiter  *rate.Limiter
	// slots bounds the requests at once.
	slots chan struct{}
	// bodies bounds what their bodies hold.
	bodies *semaphore.Weighted
	// err is why the route takes nothing, whatever happens to its secrets: the document could not be compiled.
	err error

	counts counts
}

// counts are what a route counts. They outlive a new revision of the document.
type counts struct{ shared *sharedCounts }

type sharedCounts struct {
	mu      sync.Mutex // guards the following
	value   resources.SourceCounts
	changed bool
	nextLog time.Time
}

// compile makes a route of a document. It never fails: a route with an error answers 503 and says why in its status.
func compile(hook *resources.Webhook, old *route) *route {
	spec := hook.TypedSpec().DeepCopy()
	r := &route{
		name: hook.Metadata().ID(), uid: resources.UIDOf(hook.Metadata()), revision: resources.RevisionOf(hook.Metadata()),
		spec: spec, slots: make(chan struct{}, max(spec.Limits.Concurrency, 1)), bodies: newSpace(routeSpace),
		counts: counts{&sharedCounts{}},
	}

	if old != nil && old.uid == r.uid {
		r.counts = old.counts
	}

	perSecond := spec.Limits.Rate.PerSecond()
	// A burst of one second's worth, at least one: what a sender may send at once after a pause.
	r.limiter = rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond), 1))

	r.verifier, r.err = newVerifier(&spec)

	for _, list := range []struct {
		texts []string
		into  *[]netip.Prefix
		field string
	}{{spec.Allow, &r.allow, "allow"}, {spec.TrustedProxies, &r.proxies, "trustedProxies"}} {
		for _, text := range list.texts {
			prefix, err := netip.ParsePrefix(text)
			if err != nil && r.err == nil {
				r.err = fmt.Errorf("spec.%s: %q is not a prefix, as 10.0.0.0/8", list.field, text)
			}

			*list.into = append(*list.into, prefix)
		}
	}

	return r
}

// ready returns why the route takes nothing at the moment: nil, its document, or its secrets.
func (r *route) ready() error {
	if r.err != nil {
		return r.err
	}

	return r.verifier.ready()
}

// note changes the counters.
func (r *route) note(change func(*resources.SourceCounts)) {
	c := r.counts.shared

	c.mu.Lock()
	defer c.mu.Unlock()

	change(&c.value)
	c.changed = true
}

// refused counts a refusal and reports whether it is to be logged: once a minute for a route, whatever is sent to it.
func (r *route) refused(message string) (log bool) {
	c := r.counts.shared

	c.mu.Lock()
	defer c.mu.Unlock()

	c.value.Refused++
	c.value.LastError = message
	c.changed = true

	now := time.Now()
	if now.Before(c.nextLog) {
		return false
	}

	c.nextLog = now.Add(time.Minute)

	return true
}

// take returns the counters and whether they changed since the last call.
func (r *route) take() (resources.SourceCounts, bool) {
	c := r.counts.shared

	c.mu.Lock()
	defer c.mu.Unlock()

	changed := c.changed
	c.changed = false

	return c.value, changed
}
