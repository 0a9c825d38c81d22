package store

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
)

// Store is the state with its engine.
type Store interface {
	// State is the raw state, for controllers. Writers from outside go through Admission.
	State() state.State
	// Barrier returns when everything that anybody could read from the state, or appended to the journal, before the call
	// is durable. It returns an error when ctx ends first; nothing is acknowledged then.
	Barrier(ctx context.Context) error
	// Journal is the log of what happened.
	Journal() Journal
	// Healthy returns nil, or why the store can't be written at the moment.
	Healthy() error
	// GatewayID marks what is ours on hypervisors.
	GatewayID() string
	// Close writes what is queued and releases the data directory.
	Close() error
}

// Barrier is the part of a Store that those need who act outside: nothing is acknowledged, published or done to a
// hypervisor before it.
type Barrier interface {
	Barrier(ctx context.Context) error
}

// Class of a journal entry.
type Class string

// Classes of entries.
const (
	ClassEvent      Class = "event"      // taken in
	ClassRefused    Class = "refused"    // an event that was not taken in
	ClassCommand    Class = "command"    // an operator's
	ClassHypervisor Class = "hypervisor" // a call that changed something
	ClassPublished  Class = "published"  // a message
	ClassTrigger    Class = "trigger"    // a trigger looked at an event
	ClassForced     Class = "forced"     // a forced deletion
	ClassRevision   Class = "revision"   // a declared object was created, changed or taken away
	ClassDead       Class = "dead"       // an event that could not be processed
)

// Entry is one line of the journal.
type Entry struct {
	// Number rises with each entry; it is set by Append.
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"`
	Class  Class     `json:"class"`
	// Source and Name as in resources.EventAttributes, for events; otherwise who did it: vm, api, trigger.
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	// EventID is the event that the entry is, or that led to it.
	EventID string `json:"eventId,omitempty"`
	// Key deduplicates: within 24 h, and the newest 100,000 of Source and Name, Seen finds it. Keys of ClassRefused and
	// ClassDead are not found: nothing was taken in.
	Key string `json:"key,omitempty"`
	// Object is what it is about: VM/web-1.
	Object  string `json:"object,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Attributes are those of an event, as JSON; Data its payload up to 64 KiB.
	Attributes []byte `json:"attributes,omitempty"`
	Data       []byte `json:"data,omitempty"`
}

// Query chooses entries. Zero fields choose all.
type Query struct {
	Classes []Class
	Source  string
	Name    string
	EventID string
	Object  string
	// After returns only entries with a greater number, Before, unless 0, only those with a smaller one.
	After, Before uint64
	Since         time.Time
	// Limit is the number of the newest entries that are returned, 0: 1000.
	Limit int
}

// Journal is a bounded, durable log: 24 h or 100,000 entries a source. Nothing is decided from it but deduplication.
type Journal interface {
	// Append queues the entry, in one order with the writes to the state; Barrier makes it durable. It never blocks on the
	// disk and sets Number and, if zero, Time. The entry of an event with a Key is not appended before the event is there: a crash in
	// between would leave a delivery that counts as seen and was never taken in. See Join.
	Append(e Entry) error
	// Join returns a context with which an object is created, once, together with the entry: both become durable, or neither does. finish is
	// called when the object is there; it appends the entry where the store has no disk.
	Join(ctx context.Context, e Entry) (joined context.Context, finish func() error)
	// Query returns the chosen entries, oldest first.
	Query(ctx context.Context, q Query) ([]Entry, error)
	// Seen returns the id of the event that was taken in with this key.
	Seen(source, name, key string) (eventID string, ok bool)
	// Forget drops the key, so that the same delivery is processed again: for one that failed or is dead.
	Forget(source, name, key string)
	// Wait returns when an entry with a number greater than after is there, or ctx ends.
	Wait(ctx context.Context, after uint64) error
}
