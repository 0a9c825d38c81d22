package files

import (
	"time"

	"gateway/resources"
)

// root is one directory with documents. Only Run's goroutine uses it.
type root struct {
	path    string
	scanner *Scanner
	tracker *Tracker
	// spec and statuses are what was written last.
	spec     resources.FileRootSpec
	statuses map[string]resources.FileStatusSpec
	// dirty are directories to look at again, all that everything is; at is when, zero when not.
	dirty map[string]bool
	all   bool
	at    time.Time
	// scan is when to scan next in any case, verify when to compare by content.
	scan, verify time.Time
	// rested is before when no look is taken, so that a large root that changes all the time does not take all the CPU.
	rested time.Time
}

// want asks for a look at a directory, or at all if it is empty, not later than at a time.
func (r *root) want(dir string, at time.Time) {
	if dir == "" || !r.scanner.has(dir) {
		r.all = true
	} else {
		r.dirty[dir] = true
	}

	if r.at.IsZero() || at.Before(r.at) {
		r.at = at
	}
}

// due returns when the root has to be looked at next.
func (r *root) due() time.Time {
	at := r.scan
	if !r.at.IsZero() && r.at.Before(at) {
		at = r.at
	}

	if at.Before(r.rested) {
		return r.rested
	}

	return at
}

// restFactor makes looks take at most a fifth of one CPU.
const restFactor = 4

// look takes the look that is due.
func (r *root) look(now time.Time, rescan, every time.Duration) Snapshot {
	var snapshot Snapshot

	switch {
	case !now.Before(r.verify):
		snapshot = r.scanner.Scan(true)
		r.verify = now.Add(rescan)
	case r.all || !now.Before(r.scan):
		snapshot = r.scanner.Scan(false)
	default:
		dirs := make([]string, 0, len(r.dirty))
		for dir := range r.dirty {
			dirs = append(dirs, dir)
		}

		snapshot = r.scanner.Look(dirs)
	}

	end := time.Now()

	clear(r.dirty)
	r.all, r.at = false, time.Time{}
	r.rested = end.Add(restFactor * end.Sub(now))

	if !now.Before(r.scan) {
		r.scan = now.Add(every)
	}

	if !snapshot.Available {
		r.scan = now.Add(min(retry, every))
	}

	return snapshot
}
