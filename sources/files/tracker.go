package files

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Batch is what one look means.
type Batch struct {
	// Changed are settled files that are new or have new content, in order of their path.
	Changed []Look
	// Gone are files that were not there for two looks, in order.
	Gone []string
	// Held reports that files came back whose removal is still being dealt with.
	Held bool
	// Wait is after how long to look again at the directories Again; zero when nothing is on its way.
	Wait  time.Duration
	Again []string
	// Moving is how many files are not settled yet.
	Moving int
}

// Tracker turns looks into changes: a file counts as written once it did not change for the settle time, and as gone once it
// was missing in two looks that are as far apart. It is not safe for concurrent use.
type Tracker struct {
	settle time.Duration
	// watched says that changes are noticed when they happen, so that the file system's change time can be believed. Where
	// they are not, two looks must agree.
	watched bool
	// known are the digests that were reported, by path.
	known map[string]string
	// leaving are files whose removal was reported and is still being dealt with.
	leaving map[string]bool
	moving  map[string]move
	touched map[string]time.Time
}

// move is a file on its way from what is known to something else.
type move struct {
	gone   bool
	stamp  stamp
	digest string
	since  time.Time
	group  string
}

// NewTracker returns a tracker that knows no file.
func NewTracker(settle time.Duration, watched bool) *Tracker {
	return &Tracker{
		settle: settle, watched: watched, known: map[string]string{}, leaving: map[string]bool{},
		moving: map[string]move{}, touched: map[string]time.Time{},
	}
}

// Touch notes that something happened to a file at a time.
func (t *Tracker) Touch(path string, at time.Time) {
	if at.After(t.touched[path]) {
		t.touched[path] = at
	}
}

// Released notes that the removal of a file has been dealt with.
func (t *Tracker) Released(path string) { delete(t.leaving, path) }

// Observe compares a snapshot with what is known. What it returns as changed or gone is known from then on.
func (t *Tracker) Observe(s Snapshot, now time.Time) Batch {
	if !s.Available {
		clear(t.moving)

		return Batch{}
	}

	t.compare(s, now)

	var batch Batch

	due := t.due()

	for path, m := range t.moving {
		wait := due(path, m).Sub(now)

		switch {
		case wait > 0:
			if batch.Moving++; batch.Wait == 0 || wait < batch.Wait {
				batch.Wait = wait
			}

			batch.Again = append(batch.Again, filepath.Dir(path))
		case m.gone:
			batch.Gone = append(batch.Gone, path)
			t.leaving[path] = true

			delete(t.known, path)
			t.forget(path)
		case t.leaving[path]:
			batch.Held = true
		default:
			batch.Changed = append(batch.Changed, s.Files[path])
			t.known[path] = m.digest
			t.forget(path)
		}
	}

	if len(t.moving) == 0 {
		clear(t.touched)
	}

	slices.Sort(batch.Gone)
	slices.SortFunc(batch.Changed, func(a, b Look) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(batch.Again)
	batch.Again = slices.Compact(batch.Again)

	return batch
}

func (t *Tracker) forget(path string) {
	delete(t.moving, path)
	delete(t.touched, path)
}

// compare brings moving up to date with a snapshot.
func (t *Tracker) compare(s Snapshot, now time.Time) {
	for path, look := range s.Files {
		if digest, ok := t.known[path]; look.Err != "" || ok && digest == look.Digest {
			// What can't be read is there all the same: what was known of it stays.
			t.forget(path)

			continue
		}

		if m, ok := t.moving[path]; ok && !m.gone && m.stamp == look.stamp && m.digest == look.Digest {
			continue
		}

		since := now
		if t.watched && look.Changed.Before(now) {
			since = look.Changed
		}

		t.moving[path] = move{stamp: look.stamp, digest: look.Digest, since: since, group: look.Group}
	}

	for path := range t.known {
		if _, there := s.Files[path]; there {
			continue
		}

		if s.hides(path) {
			t.forget(path)
		} else if !t.moving[path].gone {
			t.moving[path] = move{gone: true, since: now}
		}
	}

	for path := range t.moving {
		if _, known := t.known[path]; !known {
			if _, there := s.Files[path]; !there && !s.hides(path) { // came and went
				t.forget(path)
			}
		}
	}
}

// due returns when a moving file is settled: the files of one group all at the time of the last.
func (t *Tracker) due() func(path string, m move) time.Time {
	single := func(path string, m move) time.Time {
		if touched := t.touched[path]; touched.After(m.since) {
			return touched.Add(t.settle)
		}

		return m.since.Add(t.settle)
	}

	groups := map[string]time.Time{}

	for path, m := range t.moving {
		if at := single(path, m); m.group != "" && at.After(groups[m.group]) {
			groups[m.group] = at
		}
	}

	return func(path string, m move) time.Time {
		if m.group != "" {
			return groups[m.group]
		}

		return single(path, m)
	}
}
