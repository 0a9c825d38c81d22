package actions

import (
	"math/rand/v2"
	"time"

	"gateway/resources"
)

const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
	// maxRefusals is how often a server may refuse a message before it is a dead letter: with the pauses in between, half a
	// minute. A server that is away refuses nothing, and is waited for without end.
	maxRefusals = 8
)

// lane are the actions of one subject, oldest first. One of them is under way at a time, and those behind it wait, so that
// messages of a subject keep their order.
type lane struct {
	subject string
	waiting []*resources.Action

	// failures are those of the first action.
	failures struct{ all, refused int }
	resume   time.Time
}

// lanes are all lanes with something to send. It is owned by the sink's goroutine.
type lanes struct {
	bySubject map[string]*lane
	// known are the ids of the actions in lanes.
	known map[string]bool
	// ready are lanes whose first action may be sent, paused those that wait after a failure. A lane that is in neither has
	// a message under way.
	ready, paused []*lane
	// timer ends when the first of the paused lanes may go on.
	timer <-chan time.Time
}

func newLanes() *lanes {
	return &lanes{bySubject: map[string]*lane{}, known: map[string]bool{}}
}

// add puts an action at the end of its lane, unless it is there.
func (s *lanes) add(action *resources.Action) {
	id, subject := action.Metadata().ID(), action.TypedSpec().Subject
	if s.known[id] {
		return
	}

	s.known[id] = true

	l := s.bySubject[subject]
	if l == nil {
		l = &lane{subject: subject}
		s.bySubject[subject] = l
		s.ready = append(s.ready, l)
	}

	l.waiting = append(l.waiting, action)
}

// next takes a lane whose first action is to be sent; nil: none.
func (s *lanes) next() *lane {
	if len(s.ready) == 0 {
		return nil
	}

	l := s.ready[0]
	s.ready = s.ready[1:]

	return l
}

// succeeded drops the first action of a lane.
func (s *lanes) succeeded(l *lane) {
	delete(s.known, l.waiting[0].Metadata().ID())

	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.failures.all, l.failures.refused = 0, 0

	if len(l.waiting) == 0 {
		delete(s.bySubject, l.subject)
	} else {
		s.ready = append(s.ready, l)
	}
}

// failed has a lane wait, for a time that doubles with each failure, with jitter.
func (s *lanes) failed(l *lane, refused bool, now time.Time) {
	if refused {
		l.failures.refused++
	}

	wait := min(minBackoff<<min(l.failures.all, 10), maxBackoff)
	l.failures.all++
	l.resume = now.Add(wait + rand.N(wait/4))
	s.paused = append(s.paused, l)
	s.schedule(now)
}

// due returns a channel that ends when wake is to be called; nil: not at all.
func (s *lanes) due() <-chan time.Time { return s.timer }

// wake makes those paused lanes ready whose time has come.
func (s *lanes) wake(now time.Time) {
	waiting := s.paused[:0]

	for _, l := range s.paused {
		if l.resume.After(now) {
			waiting = append(waiting, l)
		} else {
			s.ready = append(s.ready, l)
		}
	}

	clear(s.paused[len(waiting):])
	s.paused = waiting
	s.schedule(now)
}

// schedule sets the timer for the first of the paused lanes, but not before minBackoff / 4: with thousands of lanes each look
// at all of them serves many.
func (s *lanes) schedule(now time.Time) {
	s.timer = nil

	if len(s.paused) == 0 {
		return
	}

	first := s.paused[0].resume
	for _, l := range s.paused {
		if l.resume.Before(first) {
			first = l.resume
		}
	}

	s.timer = time.After(max(first.Sub(now), minBackoff/4))
}
