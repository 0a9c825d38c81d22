package cronexpr

import "time"

// Next returns the first time after `after` at which the expression is due, in its time zone, in whole seconds; zero when there is none
// within the years that time zones can be computed for. @every counts from `after`.
//
// Where the clocks change: a wall time that does not exist is due once, shifted by as much as the clocks were (02:30 at
// 03:30); one that comes twice is due at the first, except that a schedule that is due in every hour of the day follows
// real time and is due at both.
func (e *Expression) Next(after time.Time) time.Time {
	after = after.Round(0).In(e.loc) // without the monotonic reading: this is about the clock on the wall

	if e.every > 0 {
		return after.Truncate(time.Second).Add(e.every)
	}

	// at is a moment of the segment that is looked at; nothing before it is due.
	for at := after; ; {
		s := segmentAt(at)

		due := e.nextIn(s, after)
		if due.IsZero() || s.end.IsZero() || due.Before(s.end) {
			return due
		}

		at = s.end
		after = s.end.Add(-time.Second) // so that the end itself, which is the next segment's first second, can be due
	}
}

// Prev returns the newest time in (after, at] at which the expression is due; zero when there is none. @every counts from
// `after`.
func (e *Expression) Prev(after, at time.Time) time.Time {
	after, at = after.Round(0), at.Round(0)

	if e.every > 0 {
		base := after.Truncate(time.Second)
		if n := at.Sub(base) / e.every; n > 0 {
			return base.Add(n * e.every).In(e.loc)
		}

		return time.Time{}
	}

	due := e.Next(after)
	if due.IsZero() || due.After(at) {
		return time.Time{}
	}

	// Next rises with its argument, so the last moment from which it is still within reach is found by halving: 30 steps
	// for 30 years, however often the expression is due.
	low, high := due.Add(-time.Second), at
	for high.Sub(low) > time.Second {
		middle := low.Add(high.Sub(low) / 2).Truncate(time.Second)
		if !middle.After(low) {
			break
		}

		if next := e.Next(middle); !next.IsZero() && !next.After(at) {
			low, due = middle, next
		} else {
			high = middle
		}
	}

	return due
}

// Every returns the interval of @every, zero for all other expressions.
func (e *Expression) Every() time.Duration { return e.every }

// segment is a stretch of time with one offset from UTC.
type segment struct {
	// start and end are zero where there is no transition before or after.
	start, end time.Time
	// offset is that of the segment, before that of the one before it.
	offset, before time.Duration
}

func segmentAt(t time.Time) segment {
	var s segment

	s.start, s.end = t.ZoneBounds()
	s.offset = offsetOf(t)
	s.before = s.offset

	if !s.start.IsZero() {
		s.before = offsetOf(s.start.Add(-time.Nanosecond))
	}

	return s
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()

	return time.Duration(seconds) * time.Second
}

// nextIn returns the first due time after `after` by the wall clock of a segment. It may lie behind the segment's end, and
// then says nothing but that the segment has none.
func (e *Expression) nextIn(s segment, after time.Time) time.Time {
	from := after.UTC().Add(s.offset)

	if s.offset < s.before && !e.hourly {
		// The wall times up to the transition came in the segment before already.
		if first := s.start.UTC().Add(s.before - time.Second); from.Before(first) {
			from = first
		}
	}

	due := e.nextWall(from)
	if !due.IsZero() {
		due = due.Add(-s.offset)
	}

	if s.offset > s.before {
		// The wall times that were left out are due as if the clocks had not changed.
		skipped := e.nextWall(after.UTC().Add(s.before))
		if first := s.start.UTC().Add(s.before - time.Second); after.UTC().Add(s.before).Before(first) {
			skipped = e.nextWall(first)
		}

		if !skipped.IsZero() && skipped.Before(s.start.UTC().Add(s.offset)) {
			if skipped = skipped.Add(-s.before); due.IsZero() || skipped.Before(due) {
				due = skipped
			}
		}
	}

	if due.IsZero() {
		return due
	}

	return due.In(e.loc)
}

// Between two 29ths of February there are up to eight years; robfig's search gives up after five.
const (
	searchYears    = 5
	searchAttempts = 3
)

// nextWall returns the first wall time after `after` that matches, both written as if in UTC; zero when there is none.
func (e *Expression) nextWall(after time.Time) time.Time {
	for range searchAttempts {
		if next := e.wall.Next(after); !next.IsZero() {
			return next
		}

		after = time.Date(after.Year()+searchYears, time.January, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	}

	return time.Time{}
}
