package status

import (
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

// key identifies an object: its messages are in order.
type key struct{ kind, name string }

// entry is what is to be published of one object. One message of an object is under way at a time.
type entry struct {
	key
	// tombstones come before status: they are of earlier objects of the same name, oldest first.
	tombstones []*resources.Tombstone
	// status is the newest that was not acknowledged yet; nil: none.
	status resource.Resource
	// uid is that of the last object of this name that was published in this process.
	uid string
	// queued and flying say where the entry is: in the queue, or taken from it, until the outcome of its message.
	queued, flying bool
}

func (e *entry) pending() bool { return e.status != nil || len(e.tombstones) > 0 }

// outbox holds the entries with something to publish. It is owned by the sink's goroutine. It has at most one entry an
// object, whatever the number of changes: a slow broker leads to coalescing, not to growth.
type outbox struct {
	entries map[key]*entry
	queue   []*entry
	gone    recent // uids of tombstones that were noted
}

func newOutbox() *outbox {
	return &outbox{entries: map[key]*entry{}, gone: recent{known: map[string]bool{}}}
}

// maxRecent bounds the memory for uids of what is gone, at 100 bytes each, to 3 MB. The kinds are watched side by side: a
// status may come through after the tombstone of its object was told, but not after as many others as a watch can be behind
// without being overrun.
const maxRecent = 32768

// recent is a set that holds the newest of its members.
type recent struct {
	known map[string]bool
	order []string
	next  int // the oldest of order, once it is full
}

// add reports whether the member is new.
func (r *recent) add(member string) bool {
	if r.known[member] {
		return false
	}

	r.known[member] = true

	if len(r.order) < maxRecent {
		r.order = append(r.order, member)

		return true
	}

	delete(r.known, r.order[r.next])
	r.order[r.next] = member
	r.next = (r.next + 1) % maxRecent

	return true
}

func (o *outbox) entry(k key) *entry {
	e := o.entries[k]
	if e == nil {
		e = &entry{key: k}
		o.entries[k] = e
	}

	return e
}

// setStatus notes the newest status of an object. That of one whose tombstone is known comes late: nothing is told of an object
// after its end.
func (o *outbox) setStatus(kind string, r resource.Resource) {
	if o.gone.known[uidOf(r)] {
		return
	}

	e := o.entry(key{kind, r.Metadata().ID()})
	e.status = r
	o.enqueue(e)
}

// dropStatus forgets a status whose object is gone: its tombstone has the last word.
func (o *outbox) dropStatus(kind, name string) {
	if e := o.entries[key{kind, name}]; e != nil {
		e.status = nil
		o.forget(e)
	}
}

// addTombstone notes that an object is gone. It reports whether that was told before: then the tombstone only has to go. It may
// have been written once more while the object's status could not be taken away.
func (o *outbox) addTombstone(t *resources.Tombstone) (told bool) {
	spec := t.TypedSpec()
	e := o.entry(key{spec.Kind, spec.Name})

	if !o.gone.add(spec.UID) {
		told = !slices.ContainsFunc(e.tombstones, func(other *resources.Tombstone) bool { return other.TypedSpec().UID == spec.UID })
		o.forget(e)

		return told
	}

	e.tombstones = append(e.tombstones, t)

	if e.status != nil && uidOf(e.status) == spec.UID {
		e.status = nil
	}

	o.enqueue(e)

	return false
}

// enqueue puts an entry with something to publish at the end of the queue, unless it is there or under way.
func (o *outbox) enqueue(e *entry) {
	if !e.pending() || e.queued || e.flying {
		return
	}

	e.queued = true
	o.queue = append(o.queue, e)
}

// take removes up to n entries from the queue. They count as under way from here on: what is noted of them before their message
// is sent must not queue them once more.
func (o *outbox) take(n int) []*entry {
	n = min(n, len(o.queue))
	taken := o.queue[:n:n]
	o.queue = o.queue[n:]

	for _, e := range taken {
		e.queued, e.flying = false, true
	}

	return taken
}

// forget drops an entry that has nothing to say, so that deleted objects leave nothing.
func (o *outbox) forget(e *entry) {
	if !e.pending() && !e.flying && !e.queued && e.uid == "" {
		delete(o.entries, e.key)
	}
}

func uidOf(r resource.Resource) string {
	switch spec := r.Spec().(type) {
	case *resources.VMStatusSpec:
		return spec.UID
	case *resources.HostStatusSpec:
		return spec.UID
	}

	return ""
}
