package intake

import "context"

// Pacer holds back intake while controllers have too much to do; store.Pacer is one.
type Pacer interface {
	// Wait returns once more can be taken in, or with ctx's error when it ends first.
	Wait(ctx context.Context) error
}

// batch is how many writes go between two waits: far below the smallest watch history (1,024 events), so that no watcher
// can be overrun between two looks at the queues.
const batch = 100

// Pace counts the writes of one goroutine and waits for the pacer after each batch. Its zero value never waits.
type Pace struct {
	Pacer   Pacer
	written int
}

// Before is called before each write of an event.
func (p *Pace) Before(ctx context.Context) error {
	if p.Pacer == nil {
		return ctx.Err()
	}

	p.written++
	if p.written%batch != 1 {
		return nil
	}

	return p.Pacer.Wait(ctx)
}
