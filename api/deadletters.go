package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/broker"
	"gateway/resources"
	"gateway/store"
)

// DeadLetter is something that could not be processed.
type DeadLetter struct {
	// Number is of its entry in the journal; an event can have several.
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Source  string    `json:"source"`
	Name    string    `json:"name"`
	EventID string    `json:"eventId"`
	Object  string    `json:"object,omitempty"`
	Peer    string    `json:"peer,omitempty"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Type    string    `json:"type,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Bytes   int64     `json:"bytes"`
	// Published reports that it is in the dead letters' stream, as far as NATS can be asked; InJournal that it can be replayed.
	Published bool `json:"published"`
	InJournal bool `json:"inJournal"`
	// Data is the payload, of one letter alone, and not where it would have been applied: it may hold secrets.
	Data []byte `json:"data,omitempty"`
}

// DeadLetters are several, oldest first.
type DeadLetters struct {
	Items []DeadLetter `json:"items"`
	// NATS says why the stream could not be asked.
	NATS string `json:"nats,omitempty"`
}

// maxLetters is how many are listed.
const maxLetters = 10_000

// Letters returns the dead letters that nobody purged or replayed: of the journal, 24 h, and of the stream, which keeps them
// 30 days.
func (o *Operations) Letters(ctx context.Context, source, name string) (DeadLetters, error) {
	answer := DeadLetters{Items: []DeadLetter{}}

	marks, outstanding, err := o.letters(ctx)
	if err != nil {
		return answer, err
	}

	known := map[string]int{}

	for i := range outstanding {
		known[letterID(outstanding[i].EventID, outstanding[i].Number)] = len(answer.Items)
		answer.Items = append(answer.Items, letterOf(&outstanding[i]))
	}

	if o.Broker != nil {
		published, err := o.Broker.DeadLetters(ctx, maxLetters)
		if err != nil {
			answer.NATS = err.Error()
		}

		for i := range published {
			if at, ok := known[published[i].MessageID]; ok {
				answer.Items[at].Published = true
			} else if letter, number := publishedLetter(&published[i]); !slices.ContainsFunc(marks, func(m store.Entry) bool {
				return m.Purges(&store.Entry{Class: store.ClassDead, Number: number, Source: letter.Source, Name: letter.Name, EventID: letter.EventID})
			}) {
				answer.Items = append(answer.Items, letter)
			}
		}
	}

	answer.Items = slices.DeleteFunc(answer.Items, func(l DeadLetter) bool {
		return source != "" && l.Source != source || name != "" && l.Name != name
	})
	slices.SortStableFunc(answer.Items, func(a, b DeadLetter) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Number, b.Number)) })

	return answer, nil
}

// letters reads the journal.
func (o *Operations) letters(ctx context.Context) (marks, outstanding []store.Entry, err error) {
	entries, err := o.Store.Journal().Query(ctx, store.Query{Classes: []store.Class{store.ClassDead, store.ClassPurged}, Limit: 2 * maxLetters})
	if err != nil {
		return nil, nil, fmt.Errorf("error reading the journal: %w", err)
	}

	outstanding = store.Outstanding(entries)
	marks = slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Class != store.ClassPurged })

	return marks, outstanding, nil
}

func letterID(event string, number uint64) string {
	return event + "/" + strconv.FormatUint(number, 10)
}

func letterOf(e *store.Entry) DeadLetter {
	letter := DeadLetter{
		Number: e.Number, Time: e.Time, Source: e.Source, Name: e.Name, EventID: e.EventID, Object: e.Object, Peer: e.Peer,
		Reason: e.Reason, Message: e.Message, Bytes: int64(len(e.Data)), InJournal: true,
	}

	var a resources.EventAttributes
	if json.Unmarshal(e.Attributes, &a) == nil {
		letter.Type, letter.Subject, letter.Bytes = a.Type, a.Subject, a.Bytes
	}

	return letter
}

// publishedLetter is a letter that only the stream has. Numbers are of the journal, also where it was of a former data directory.
func publishedLetter(p *broker.DeadLetter) (letter DeadLetter, number uint64) {
	letter = DeadLetter{
		Time: p.Time, Source: p.Source, Name: p.Name, EventID: p.EventID, Type: p.Type, Subject: p.Subject, Bytes: p.Bytes, Published: true,
	}
	letter.Reason, letter.Message, _ = strings.Cut(p.Reason, ": ")

	if text, ok := strings.CutPrefix(p.MessageID, p.EventID+"/"); ok {
		number, _ = strconv.ParseUint(text, 10, 64) //nolint:errcheck // another gateway's letter has number 0
	}

	letter.Number = number

	return letter, number
}

// Letter returns the newest dead letter of an event, with its data where that may be shown.
func (o *Operations) Letter(ctx context.Context, id string) (DeadLetter, error) {
	all, err := o.Letters(ctx, "", "")
	if err != nil {
		return DeadLetter{}, err
	}

	for _, letter := range slices.Backward(all.Items) {
		if letter.EventID != id {
			continue
		}

		entries, err := o.Store.Journal().Query(ctx, store.Query{Classes: []store.Class{store.ClassDead}, EventID: id})
		if err != nil {
			return letter, fmt.Errorf("error reading the journal: %w", err)
		}

		for i := range entries {
			if shown := o.withheld(ctx, entries[i]); entries[i].Number == letter.Number {
				letter.Data = shown.Data
			}
		}

		return letter, nil
	}

	return DeadLetter{}, fmt.Errorf("dead letter of event %q: %w", id, errNotFound)
}

// withheld is the entry without data that was to be applied: it can be cloud-init's user data, which is shown nowhere.
func (o *Operations) withheld(ctx context.Context, e store.Entry) store.Entry {
	if e.Class != store.ClassDead || len(e.Data) == 0 {
		return e
	}

	if d, ok, err := o.declarationOf(ctx, e.Source, e.Name); err != nil || !ok || d.apply != nil {
		e.Data = nil
	}

	return e
}
