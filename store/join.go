package store

import (
	"context"
	"fmt"
)

// joint is an entry on its way to the store with the object that is created with its context.
type joint struct {
	journal *journal
	entry   Entry
	// done reports that the entry is queued; err is what went wrong afterwards, which the object is not to blame for.
	done bool
	err  error
}

type jointKey struct{}

// Join implements Journal.
func (j *journal) Join(ctx context.Context, e Entry) (joined context.Context, finish func() error) {
	t := &joint{journal: j, entry: e}

	return context.WithValue(ctx, jointKey{}, t), func() error {
		if t.done {
			return t.err
		}

		return j.Append(e) // without a disk
	}
}

// jointOf returns the entry that waits for an object in this context; nil: none.
func jointOf(ctx context.Context) *joint {
	t, _ := ctx.Value(jointKey{}).(*joint)
	if t == nil || t.done {
		return nil
	}

	return t
}

// put queues the object and the entry in one.
func (t *joint) put(ctx context.Context, q *queue, o op) error {
	if err := q.room(ctx, o); err != nil {
		return err
	}

	o.joined = true

	queued, err := t.journal.append(t.entry, o)
	if !queued {
		return fmt.Errorf("error noting what is created: %w", err)
	}

	t.done, t.err = true, err

	return nil
}
