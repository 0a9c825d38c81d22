package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"gateway/broker"
	"gateway/resources"
	"gateway/store"
)

// LettersRequest chooses dead letters: those of an event, of a source and name, or all.
type LettersRequest struct {
	ID     string `json:"id,omitempty"`
	Source string `json:"source,omitempty"`
	Name   string `json:"name,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// marks returns the entries that say that the chosen letters are done with.
func (q *LettersRequest) marks(letters []DeadLetter, reason string) (marks []store.Entry) {
	seen := map[string]bool{}

	for i := range letters {
		l := &letters[i]
		if !q.chooses(l.Source, l.Name, l.EventID) {
			continue
		}

		mark := store.Entry{Class: store.ClassPurged, Source: l.Source, Name: l.Name, EventID: l.EventID, Reason: reason}
		if q.ID == "" { // one mark for all of a source
			mark.Name, mark.EventID = q.Name, ""
		}

		if key := mark.Source + "\x00" + mark.Name + "\x00" + mark.EventID; !seen[key] {
			seen[key] = true
			marks = append(marks, mark)
		}
	}

	return marks
}

func (q *LettersRequest) chooses(source, name, id string) bool {
	return (q.ID == "" || q.ID == id) && (q.Source == "" || q.Source == source) && (q.Name == "" || q.Name == name)
}

// object names what was chosen, for the journal.
func (q *LettersRequest) object() string {
	switch {
	case q.ID != "":
		return eventObject(q.ID)
	case q.Source == "" && q.Name == "":
		return "all"
	}

	return strings.Trim(q.Source+"/"+q.Name, "/")
}

func (q *LettersRequest) validate() error {
	if q.ID == "" && q.Source == "" && q.Name == "" && !q.All {
		return usage("name an event, a source or a name, or all of them")
	}

	return nil
}

// Purged is what became of a purge.
type Purged struct {
	// Letters is how many there were, Published how many of them were taken out of the stream.
	Letters   int `json:"letters"`
	Published int `json:"published"`
	// NATS says why the stream still has them: they are not shown, and gone after 30 days.
	NATS string `json:"nats,omitempty"`
}

// Purge puts dead letters out of sight, and takes them out of the stream. Their entries stay in the journal until they are
// 24 h old: it is a record.
func (o *Operations) Purge(ctx context.Context, c Caller, q LettersRequest) (Purged, error) {
	var answer Purged

	if err := q.validate(); err != nil {
		return answer, err
	}

	all, err := o.Letters(ctx, "", "")
	if err != nil {
		return answer, err
	}

	for i := range all.Items {
		if q.chooses(all.Items[i].Source, all.Items[i].Name, all.Items[i].EventID) {
			answer.Letters++
		}
	}

	if answer.Letters == 0 && q.ID != "" {
		return answer, fmt.Errorf("dead letter of event %q: %w", q.ID, errNotFound)
	}

	if err := o.mark(c, q.marks(all.Items, "Purged")); err != nil {
		return answer, err
	}

	answer.Published, answer.NATS = o.purgeStream(ctx, q)

	return answer, o.Finish(ctx, c, "deadletters purge", q.object())
}

func (o *Operations) mark(c Caller, marks []store.Entry) error {
	for _, mark := range marks {
		mark.Peer = c.Peer

		if err := o.Store.Journal().Append(mark); err != nil {
			return fmt.Errorf("error marking dead letters: %w", err)
		}
	}

	return nil
}

func (o *Operations) purgeStream(ctx context.Context, q LettersRequest) (count int, problem string) {
	if o.Broker == nil {
		return 0, broker.ErrAway.Error()
	}

	count, err := o.Broker.PurgeDead(ctx, func(l broker.DeadLetter) bool { return q.chooses(l.Source, l.Name, l.EventID) })
	if err != nil {
		problem = err.Error()
	}

	return count, problem
}

// Redelivered is what became of replaying dead letters.
type Redelivered struct {
	Items []Replayed `json:"items"`
	// Errors are the letters that could not be replayed; they stay.
	Errors []string `json:"errors,omitempty"`
}

// Redeliver replays dead letters, and lets their senders' own redeliveries be processed again. Those that are replayed are
// letters no longer.
func (o *Operations) Redeliver(ctx context.Context, c Caller, q LettersRequest) (Redelivered, error) {
	answer := Redelivered{Items: []Replayed{}}

	if err := q.validate(); err != nil {
		return answer, err
	}

	_, outstanding, err := o.letters(ctx)
	if err != nil {
		return answer, err
	}

	done := map[string]bool{}

	for i := range outstanding {
		letter := &outstanding[i]
		if !q.chooses(letter.Source, letter.Name, letter.EventID) || done[letter.EventID] {
			continue
		}

		done[letter.EventID] = true

		replayed, err := o.redeliver(ctx, c, letter)

		if _, status, expected := problemOf(err); err != nil && (!expected || status >= http.StatusInternalServerError) {
			return answer, err
		}

		if err != nil {
			answer.Errors = append(answer.Errors, err.Error())
		} else {
			answer.Items = append(answer.Items, replayed)
		}
	}

	if len(done) == 0 && q.ID != "" {
		return answer, fmt.Errorf("dead letter of event %q in the journal: %w", q.ID, errNotFound)
	}

	if q.ID != "" && len(answer.Errors) > 0 {
		return answer, &errUsage{answer.Errors[0]}
	}

	return answer, nil
}

// problemOf is ProblemOf for an error that may be none.
func problemOf(err error) (Problem, int, bool) {
	if err == nil {
		return Problem{}, http.StatusOK, true
	}

	return ProblemOf(err)
}

func (o *Operations) redeliver(ctx context.Context, c Caller, letter *store.Entry) (Replayed, error) {
	replayed, err := o.Replay(ctx, c, letter.EventID)
	if err != nil {
		if errors.Is(err, errNotFound) {
			err = usage("event %s: what led to it is no longer in the journal", letter.EventID)
		}

		return replayed, err
	}

	var a resources.EventAttributes
	if json.Unmarshal(letter.Attributes, &a) == nil && a.DeliveryID != "" {
		o.Store.Journal().Forget(a.Source, a.Name, a.DeliveryID)
	}

	q := LettersRequest{ID: letter.EventID}
	if err := o.mark(c, q.marks([]DeadLetter{letterOf(letter)}, "Replayed")); err != nil {
		return replayed, err
	}

	o.purgeStream(ctx, q) // what stays there is marked as done with

	return replayed, o.Store.Barrier(ctx)
}
