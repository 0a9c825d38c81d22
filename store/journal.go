package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of an entry. Larger data and messages are cut, larger attributes left out: the journal is a record, and who needs
// the whole payload finds its digest and length in the attributes.
const (
	maxEntryData       = 64 << 10
	maxEntryAttributes = 64 << 10
	maxEntryMessage    = 8 << 10
	maxEntrySource     = 255
	defaultQueryLimit  = 1000
)

// journalLimits bound a journal.
type journalLimits struct {
	// age is how long entries and keys are kept.
	age time.Duration
	// entries of one source, and keys of one source and name.
	entries, keys int
	// totalKeys bounds the memory of deduplication: a key costs about 150 bytes.
	totalKeys int
	// bytes bounds the space of all entries: above it the oldest of the source that uses most goes.
	bytes int64
}

// boltJournalLimits: with 100,000 entries of at most 150 KiB for each of ten sources the journal could grow to 150 GB; 1 GiB
// keeps 100,000 entries of each source at the usual kilobyte. A million keys are 150 MB of memory, in the worst case of ten
// busy routes; the usual one is a tenth of it.
func boltJournalLimits() journalLimits {
	return journalLimits{age: 24 * time.Hour, entries: 100_000, keys: 100_000, totalKeys: 1_000_000, bytes: 1 << 30}
}

// memoryJournalLimits: the same, with all payloads in 64 MiB of memory.
func memoryJournalLimits() journalLimits {
	l := boltJournalLimits()
	l.bytes = 64 << 20

	return l
}

// journalDisk keeps entries beyond the process.
type journalDisk interface {
	// push queues writes, in order. It never waits.
	push(ops ...op) error
	// scan calls visit with the encoded entries from the newest to the oldest, until visit returns false. It begins before a number,
	// unless that is 0.
	scan(ctx context.Context, before uint64, visit func(number uint64, encoded []byte) (bool, error)) error
}

// logged is what the journal remembers of an entry in memory.
type logged struct {
	number uint64
	at     int64 // Unix nanoseconds
	size   int64
}

// sourceLog are the entries of one source, oldest first.
type sourceLog struct {
	fifo[logged]

	bytes int64
}

// journal implements Journal over memory, or over a disk with only numbers and keys in memory.
type journal struct {
	limits journalLimits
	disk   journalDisk // nil: entries live in held

	mu sync.Mutex // guards the following
	// last is the number of the newest entry.
	last    uint64
	sources map[string]*sourceLog
	bytes   int64
	keys    *keyIndex
	// held are entries that are in memory: all of them without a disk, otherwise those that a scan may not find yet.
	held heldEntries
	// changed is closed, and made anew, when an entry is appended.
	changed chan struct{}
	swept   time.Time
	// dead are keys that were above the limits when the journal was loaded.
	dead []uint64
}

func newJournal(limits journalLimits, disk journalDisk) *journal {
	return &journal{
		limits:  limits,
		disk:    disk,
		sources: map[string]*sourceLog{},
		keys:    newKeyIndex(limits),
		changed: make(chan struct{}),
	}
}

// Append implements Journal.
func (j *journal) Append(e Entry) error {
	_, err := j.append(e)

	return err
}

// append queues writes that become durable with the entry, and the entry. queued reports that they are, also where what is too old
// could not be cleared away afterwards.
func (j *journal) append(e Entry, with ...op) (queued bool, err error) {
	if len(e.Source) == 0 || len(e.Source) > maxEntrySource {
		return false, fmt.Errorf("error appending to the journal: the source %.20q has not 1 to %d characters", e.Source, maxEntrySource)
	}

	if e.Time.IsZero() {
		e.Time = time.Now()
	}

	e.Time = e.Time.Round(0).UTC() // as it comes back from the disk
	e = bounded(e)
	encoded := encodeEntry(&e)

	j.mu.Lock()
	defer j.mu.Unlock()

	e.Number = j.last + 1
	ops := append(with, entryOp(e.Number, encoded))

	// An entry without its key would be taken in, and published, once more.
	if e.counts() {
		ops[len(ops)-1].joined = true
		ops = append(ops, keyOp(&e))
	}

	if j.disk != nil {
		if err := j.disk.push(ops...); err != nil {
			return false, fmt.Errorf("error appending to the journal: %w", err)
		}
	}

	j.last = e.Number
	j.held.add(&e)
	j.note(e.Source, logged{number: e.Number, at: e.Time.UnixNano(), size: int64(len(encoded))})

	old := j.dead
	j.dead = nil

	if e.counts() {
		old = append(old, j.keys.add(e.Source, e.Name, e.Key, seenKey{number: e.Number, at: e.Time.UnixNano(), id: e.EventID})...)
	}

	err = j.prune(e.Source, time.Now(), old)

	close(j.changed)
	j.changed = make(chan struct{})

	return true, err
}

// counts reports whether Seen finds the entry: not one that says that nothing was taken in.
func (e *Entry) counts() bool {
	return e.Key != "" && e.Class != ClassRefused && e.Class != ClassDead
}

// note adds an entry to the log of its source. j.mu is held.
func (j *journal) note(source string, l logged) {
	log := j.sources[source]
	if log == nil {
		log = &sourceLog{}
		j.sources[source] = log
	}

	log.push(l)
	log.bytes += l.size
	j.bytes += l.size
}

// Seen implements Journal.
func (j *journal) Seen(source, name, key string) (eventID string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()

	k, ok := j.keys.find(source, name, key)
	if !ok || k.at < time.Now().Add(-j.limits.age).UnixNano() {
		return "", false
	}

	return k.id, true
}

// Forget implements Journal.
func (j *journal) Forget(source, name, key string) {
	j.mu.Lock()
	defer j.mu.Unlock()

	number, ok := j.keys.remove(source, name, key)
	if !ok || j.disk == nil {
		return
	}

	// A push that is refused leaves the key on the disk: after a restart the delivery would count as seen once more, which
	// is what it is without Forget. The store is unhealthy then and nothing is taken in anyway.
	_ = j.disk.push(op{bucket: bucketKeys, key: numberKey(number)})
}

// Wait implements Journal.
func (j *journal) Wait(ctx context.Context, after uint64) error {
	for {
		j.mu.Lock()
		there, changed := j.last > after, j.changed
		j.mu.Unlock()

		if there {
			return nil
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("error waiting for journal entry %d: %w", after+1, context.Cause(ctx))
		}
	}
}

// Query implements Journal. What is not committed is in memory and newer than everything on the disk.
func (j *journal) Query(ctx context.Context, q Query) ([]Entry, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultQueryLimit
	}

	found := j.queryHeld(&q, limit)

	taken := make(map[uint64]bool, len(found))
	for i := range found {
		taken[found[i].Number] = true
	}

	oldest := time.Now().Add(-j.limits.age).UnixNano()

	if j.disk != nil && len(found) < limit {
		err := j.disk.scan(ctx, q.Before, func(number uint64, encoded []byte) (bool, error) {
			if number <= q.After {
				return false, nil
			}

			chosen, err := q.matchesEncoded(number, encoded, oldest)
			if err != nil || taken[number] || !chosen {
				return err == nil, err
			}

			e, err := decodeEntry(number, encoded)
			if err != nil {
				return false, err
			}

			found = append(found, e)

			return len(found) < limit, nil
		})
		if err != nil {
			return nil, fmt.Errorf("error reading the journal: %w", err)
		}
	}

	slices.Reverse(found)

	return found, nil
}

// queryHeld returns the newest entries in memory that q chooses, newest first.
func (j *journal) queryHeld(q *Query, limit int) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()

	oldest := time.Now().Add(-j.limits.age)

	var found []Entry

	j.held.newest(q.After, q.Before, func(e *Entry) bool {
		if q.matches(e) && !e.Time.Before(oldest) {
			found = append(found, *e)
		}

		return len(found) < limit
	})

	return found
}

// committed lets go of entries that a scan finds.
func (j *journal) committed(numbers []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()

	for _, n := range numbers {
		j.held.remove(n)
	}
}

// bounded cuts what is too large in an entry.
func bounded(e Entry) Entry {
	if len(e.Attributes) > maxEntryAttributes {
		e.Attributes = nil
	}

	if len(e.Message) > maxEntryMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxEntryMessage], "")
	}

	// The caller may go on using its buffers.
	e.Attributes = slices.Clone(e.Attributes)
	e.Data = slices.Clone(e.Data[:min(len(e.Data), maxEntryData)])

	return e
}
