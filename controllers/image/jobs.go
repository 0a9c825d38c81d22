package image

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gateway/resources"
)

const (
	// transfersPerHost keeps images from taking all the calls that a host gets at once, transfersInAll bounds what the gateway
	// itself streams: each transfer holds some 300 KiB.
	transfersPerHost = 2
	transfersInAll   = 16
)

// key is one image on one host.
type key struct{ image, host string }

// job is the work for one image on one host.
type job struct {
	key
	// spec is what is to be there; for a removal nothing is.
	spec    resources.ImageSpec
	removal bool
	// was is what is known of the host.
	was    resources.ImageOnHost
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	// fetched and total are bytes; total is 0 while it is not known. Waiting for its turn, fetched is negative.
	fetched, total atomic.Int64
	// virtual is the size of the disk that the image is, known from its first bytes; 0: not yet.
	virtual atomic.Int64
	// shown is the age at which its progress was last written; the reconcile of its image owns it.
	shown time.Duration

	// Written before done is closed.
	outcome outcome
}

// outcome is what a job has found or made.
type outcome struct {
	// file is what the host has, where there is no error.
	file resources.ImageOnHost
	// kept names the files that a removal has left, since disks start from them.
	kept []string
	err  error
}

func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// jobs are all that run, and all whose outcome was not taken.
type jobs struct {
	mu   sync.Mutex // guards the following
	jobs map[key]*job
	// seen is when an image was last looked at on a host: the generation of the connection. One that is not here is looked at
	// again.
	seen map[key]int64
	// known are the images that were reconciled and not let go: their files are theirs.
	known map[string]bool
	// asked are the images that somebody wants to be looked at now.
	asked map[string]bool
	// looks let one job at a time compare a host's files with what is declared, by host.
	looks map[string]chan struct{}
	// turns are the places of transfers, by host; all are those of the gateway.
	turns map[string]chan struct{}
	all   chan struct{}

	ctx    context.Context //nolint:containedctx // the life of the jobs, which outlive the reconcile that began them
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// open prepares the maps. The caller holds the lock.
func (s *jobs) open() {
	if s.ctx != nil {
		return
	}

	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.jobs, s.seen, s.known, s.asked = map[key]*job{}, map[key]int64{}, map[string]bool{}, map[string]bool{}
	s.looks, s.turns, s.all = map[string]chan struct{}{}, map[string]chan struct{}{}, make(chan struct{}, transfersInAll)
}

// close ends all jobs and waits for them. A controller may be started again afterwards.
func (s *jobs) close() {
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel()
	}

	s.ctx, s.cancel = nil, nil
	s.mu.Unlock()

	s.wg.Wait()
}

// begin starts a job.
func (s *jobs) begin(j *job, work func(context.Context, *job) outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.open()

	ctx, cancel := context.WithCancel(s.ctx)
	j.cancel, j.done, j.begun = cancel, make(chan struct{}), time.Now()
	s.jobs[j.key] = j

	s.wg.Go(func() {
		defer close(j.done)
		defer cancel()
		defer func() {
			// COSI recovers only panics of its own goroutines.
			if p := recover(); p != nil {
				j.outcome = outcome{err: fmt.Errorf("panic: %v", p)}
			}
		}()

		j.outcome = work(ctx, j)
	})
}

// find returns the job for an image on a host; nil: there is none.
func (s *jobs) find(k key) *job {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.jobs[k]
}

// take forgets a job that has ended, and notes at which connection it has looked.
func (s *jobs) take(j *job, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.jobs, j.key)

	if j.outcome.err == nil {
		s.seen[j.key] = generation
	}
}

// drop forgets a job that has ended.
func (s *jobs) drop(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.jobs, j.key)
}

// of returns the jobs of an image.
func (s *jobs) of(image string) (found []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, j := range s.jobs {
		if j.image == image {
			found = append(found, j)
		}
	}

	return found
}

// looked reports whether the image was looked at in this connection to the host.
func (s *jobs) looked(k key, generation int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	at, ok := s.seen[k]

	return ok && at == generation
}

// verify lets an image be looked at again on all hosts; asked: at once, also where it would be tried again later.
func (s *jobs) verify(image string, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.open()

	if asked {
		s.asked[image] = true
	}

	for k := range s.seen {
		if k.image == image {
			delete(s.seen, k)
		}
	}
}

// wasAsked reports whether somebody asked for the image to be looked at now, once.
func (s *jobs) wasAsked(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	was := s.asked[image]
	delete(s.asked, image)

	return was
}

// know notes that the image is declared, before anything of it is looked for on a host.
func (s *jobs) know(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.open()
	s.known[image] = true
}

func (s *jobs) knows(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.known[image]
}

// forget drops all that is known of an image.
func (s *jobs) forget(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.known, image)
	delete(s.asked, image)

	for k := range s.seen {
		if k.image == image {
			delete(s.seen, k)
		}
	}
}

// look waits until no other job looks at the host.
func (s *jobs) look(ctx context.Context, host string) (leave func(), err error) {
	return enter(ctx, s.place(&s.looks, host, 1))
}

// turn waits until the host, and the gateway, have room for a transfer.
func (s *jobs) turn(ctx context.Context, host string) (leave func(), err error) {
	leaveHost, err := enter(ctx, s.place(&s.turns, host, transfersPerHost))
	if err != nil {
		return nil, err
	}

	leaveAll, err := enter(ctx, s.all)
	if err != nil {
		leaveHost()

		return nil, err
	}

	return func() {
		leaveAll()
		leaveHost()
	}, nil
}

// place returns the places of a host.
func (s *jobs) place(places *map[string]chan struct{}, host string, n int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()

	if (*places)[host] == nil {
		(*places)[host] = make(chan struct{}, n)
	}

	return (*places)[host]
}

func enter(ctx context.Context, place chan struct{}) (leave func(), err error) {
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("interrupted while waiting for others: %w", ctx.Err())
	}
}
