package vm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
)

const (
	// ioRetry is how often it is looked whether the cause of an I/O error has gone: storage that has room again has no event.
	ioRetry = 10 * time.Second
	// A guest that was resumed and failed again is resumed after ioRetry, and each further time after twice as long, up to
	// ioRetryMax: where nothing is known of the cause, trying is the only way to find out.
	ioRetryMax = 5 * time.Minute
)

// resumeFailed resumes a guest that was paused for an I/O error, once, when the cause has gone.
func (p *pass) resumeFailed(ctx context.Context) (bool, error) {
	trouble, err := p.driver.DiskTrouble(ctx, p.uuid())
	if err != nil {
		return false, fmt.Errorf("error looking at the disks of VM %q: %w", p.id, err)
	}

	if trouble != "" {
		p.converged(resources.ConditionFalse, resources.ReasonIOError, "the guest is paused: "+trouble)
		p.after(ioRetry)

		return false, nil
	}

	if wait := p.c.resumes.wait(p.id, p.tick); wait > 0 {
		p.converged(resources.ConditionFalse, resources.ReasonIOError, "the guest was resumed and failed again")
		p.after(wait)

		return false, nil
	}

	next, err := p.domainStep(ctx, "resume after an I/O error", func() error { return p.driver.Resume(ctx, p.uuid()) })
	if err == nil {
		p.c.resumes.note(p.id, p.tick)
	}

	return next, err
}

// resumes remembers which guests were resumed after an I/O error, and how often in a row. It forgets a guest that went well
// for longer than it would have had to wait; losing it costs one resume.
type resumes struct {
	mu  sync.Mutex // guards vms
	vms map[resource.ID]resumed
}

type resumed struct {
	last  time.Time
	times int
}

// pause is how long the guest has to stay paused after so many resumes.
func (r resumed) pause() time.Duration { return min(ioRetry<<min(r.times-1, 6), ioRetryMax) }

// wait returns how long a guest that failed again is not resumed; 0: it is now.
func (r *resumes) wait(vm resource.ID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()

	known, ok := r.vms[vm]
	if !ok {
		return 0
	}

	if now.Sub(known.last) > 2*ioRetryMax {
		delete(r.vms, vm)

		return 0
	}

	return known.last.Add(known.pause()).Sub(now)
}

func (r *resumes) note(vm resource.ID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.vms == nil {
		r.vms = map[resource.ID]resumed{}
	}

	r.vms[vm] = resumed{last: now, times: r.vms[vm].times + 1}
}

func (r *resumes) forget(vm resource.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.vms, vm)
}
