package events

import (
	"context"
	"fmt"
	"slices"

	"gateway/store"
)

// withoutPurged leaves out dead letters that were purged: where the newest of the stream were, publishing goes on before them
// after a restart, and would bring them back.
func (s *Sink) withoutPurged(ctx context.Context, entries []store.Entry) ([]store.Entry, error) {
	isDead := func(e store.Entry) bool { return e.Class == store.ClassDead }
	if !slices.ContainsFunc(entries, isDead) {
		return entries, nil
	}

	marks, err := s.Journal.Query(ctx, store.Query{Classes: []store.Class{store.ClassPurged}, After: s.cursor, Limit: pageSize})
	if err != nil {
		return nil, fmt.Errorf("error reading the journal: %w", err)
	}

	return slices.DeleteFunc(entries, func(e store.Entry) bool {
		return isDead(e) && slices.ContainsFunc(marks, func(mark store.Entry) bool { return mark.Purges(&e) })
	}), nil
}
