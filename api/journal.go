package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gateway/store"
)

// JournalPage is a part of the journal, oldest first.
type JournalPage struct {
	Entries []store.Entry `json:"entries"`
}

// maxJournalWait bounds how long one request waits for the next entry.
const maxJournalWait = time.Minute

// journal answers with entries: ?class=event,dead &source= &name= &event= &object= &after= &limit= and, to follow,
// &wait=30s, which waits for an entry after `after` where there is none.
func (o *operations) journal(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	query := store.Query{Source: q.Get("source"), Name: q.Get("name"), EventID: q.Get("event"), Object: q.Get("object")}

	if text := q.Get("class"); text != "" {
		for class := range strings.SplitSeq(text, ",") {
			query.Classes = append(query.Classes, store.Class(class))
		}
	}

	var err error

	if text := q.Get("after"); text != "" {
		if query.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return usage("after is a number")
		}
	}

	if text := q.Get("limit"); text != "" {
		if query.Limit, err = strconv.Atoi(text); err != nil || query.Limit < 1 {
			return usage("limit is a number from 1")
		}
	}

	entries, err := o.Store.Journal().Query(r.Context(), query)
	if err != nil {
		return err
	}

	if text := q.Get("wait"); text != "" && len(entries) == 0 {
		if entries, err = o.waitForEntries(r.Context(), query, text); err != nil {
			return err
		}
	}

	if entries == nil {
		entries = []store.Entry{}
	}

	for i := range entries {
		entries[i] = o.withheld(r.Context(), entries[i])
	}

	writeJSON(w, http.StatusOK, JournalPage{Entries: entries})

	return nil
}

// waitForEntries waits until the query has an answer, or the time is over.
func (o *operations) waitForEntries(ctx context.Context, query store.Query, text string) ([]store.Entry, error) {
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxJournalWait {
		return nil, usage("wait is a duration up to %s", maxJournalWait)
	}

	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	newest := query.After

	for ctx.Err() == nil {
		all, err := o.Store.Journal().Query(ctx, store.Query{After: newest, Limit: 1})
		if err != nil || len(all) == 0 {
			if o.Store.Journal().Wait(ctx, newest) != nil {
				return nil, nil
			}

			continue
		}

		newest = all[0].Number

		entries, err := o.Store.Journal().Query(ctx, query)
		if err != nil || len(entries) > 0 {
			return entries, err
		}

		if o.Store.Journal().Wait(ctx, newest) != nil {
			return nil, nil
		}
	}

	return nil, nil
}
