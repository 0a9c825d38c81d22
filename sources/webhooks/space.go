package webhooks

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// What bodies of senders that are not known yet may hold, all routes together and one of them: a route that is attacked
// leaves the others half of it. A body of at most freeBody needs none: on the listener's 1,000 connections these are 16 MB.
// The largest body that a document can allow is larger than its route's space; it takes all of it.
const (
	freeBody   = 16 << 10
	allBodies  = 16 << 20
	routeSpace = allBodies / 2
)

func newSpace(bytes int64) *semaphore.Weighted { return semaphore.NewWeighted(bytes) }

// space is what one body holds.
type space struct {
	route, all *semaphore.Weighted
	bytes      int64
}

// take waits, at most until ctx ends, until there is room for a body of so many bytes. First come, first served.
func (s *space) take(ctx context.Context, bytes int64) error {
	bytes = min(bytes, routeSpace)

	if err := s.route.Acquire(ctx, bytes); err != nil {
		return err
	}

	if err := s.all.Acquire(ctx, bytes); err != nil {
		s.route.Release(bytes)

		return err
	}

	s.bytes = bytes

	return nil
}

// release gives back what was taken.
func (s *space) release() {
	if s.bytes > 0 {
		s.all.Release(s.bytes)
		s.route.Release(s.bytes)
		s.bytes = 0
	}
}
