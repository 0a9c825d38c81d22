package contract

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
)

// recorder keeps the events of one subscription.
type recorder struct {
	mu     sync.Mutex // guards events
	events []hypervisor.Event
	// ended gets the error of Events.
	ended  chan error
	cancel context.CancelFunc
}

// record subscribes, and returns when the subscription stands.
func (f *fixture) record(d hypervisor.Driver) *recorder {
	f.Helper()

	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{ended: make(chan error, 1), cancel: cancel}
	ready := make(chan struct{})

	go func() {
		r.ended <- d.Events(ctx, func() { close(ready) }, func(e hypervisor.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()

			r.events = append(r.events, e)
		})
	}()

	f.Cleanup(cancel)

	select {
	case <-ready:
	case err := <-r.ended:
		require.NoError(f, err, "the subscription ended before it stood")
	case <-f.ctx().Done():
		require.Fail(f, "the subscription never stood")
	}

	return r
}

// kinds returns what was seen of a domain.
func (r *recorder) kinds(uuid string) []hypervisor.EventKind {
	r.mu.Lock()
	defer r.mu.Unlock()

	var kinds []hypervisor.EventKind

	for _, e := range r.events {
		if e.DomainUUID == uuid {
			kinds = append(kinds, e.Kind)
		}
	}

	return kinds
}

// seen reports whether all these kinds were seen of a domain, in this order where the host keeps it.
func (f *fixture) seen(r *recorder, uuid string, want ...hypervisor.EventKind) bool {
	got := r.kinds(uuid)

	for _, kind := range want {
		i := slices.Index(got, kind)
		if i < 0 {
			return false
		}

		if f.h.Capabilities.EventsOrdered {
			got = got[i+1:]
		} else {
			got = slices.Delete(got, i, i+1)
		}
	}

	return true
}

// awaitEvents waits for events of a domain.
func (f *fixture) awaitEvents(r *recorder, uuid string, want ...hypervisor.EventKind) {
	f.Helper()
	f.eventually(func() bool { return f.seen(r, uuid, want...) }, "these events did not all come")
}

func testEvents(t *testing.T, h *Harness) {
	t.Run("tell every subscriber of what we do", func(t *testing.T) {
		f := begin(t, h)
		other := begin(t, h)
		spec := f.spec()
		first, second := f.record(f.driver), f.record(other.driver)

		f.define(spec)
		f.start(spec.UUID)
		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))
		require.NoError(t, f.driver.UndefineDomain(f.ctx(), spec.UUID))

		for _, r := range []*recorder{first, second} {
			f.awaitEvents(r, spec.UUID, hypervisor.EventDefined, hypervisor.EventStarted, hypervisor.EventStopped, hypervisor.EventUndefined)
		}
	})

	t.Run("tell of pause and resume", func(t *testing.T) {
		need(t, h.Capabilities.Pause, "pause")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)

		r := f.record(f.driver)
		f.start(spec.UUID)
		require.NoError(t, f.driver.Pause(f.ctx(), spec.UUID))
		require.NoError(t, f.driver.Resume(f.ctx(), spec.UUID))
		f.awaitEvents(r, spec.UUID, hypervisor.EventStarted, hypervisor.EventSuspended, hypervisor.EventResumed)
	})

	t.Run("tell of what others do", func(t *testing.T) {
		need(t, h.Behind.Destroy != nil && h.Behind.Undefine != nil, "destroying and undefining behind the back")

		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		r := f.record(f.driver)
		h.Behind.Destroy(t, spec.UUID)
		h.Behind.Undefine(t, spec.UUID)
		f.awaitEvents(r, spec.UUID, hypervisor.EventStopped, hypervisor.EventUndefined)
	})

	testReady(t, h)
	testEventsEnd(t, h)
}

func testReady(t *testing.T, h *Harness) {
	t.Run("and a list after ready miss nothing", func(t *testing.T) {
		f := begin(t, h)
		before, after := f.spec(), f.spec()
		f.define(before)

		r := f.record(f.driver)

		all, err := f.driver.Domains(f.ctx())
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(all, func(d hypervisor.Domain) bool { return d.UUID == before.UUID }))

		f.define(after)
		f.awaitEvents(r, after.UUID, hypervisor.EventDefined)
	})

	t.Run("name the domain", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		r := f.record(f.driver)
		f.define(spec)
		f.awaitEvents(r, spec.UUID, hypervisor.EventDefined)

		r.mu.Lock()
		defer r.mu.Unlock()

		i := slices.IndexFunc(r.events, func(e hypervisor.Event) bool { return e.DomainUUID == spec.UUID })
		require.Equal(t, spec.Name, r.events[i].Domain)
		require.False(t, r.events[i].Time.IsZero())
	})
}

func testEventsEnd(t *testing.T, h *Harness) {
	ends := func(f *fixture, r *recorder) error {
		select {
		case err := <-r.ended:
			require.Error(f, err)

			return err
		case <-f.ctx().Done():
			require.Fail(f, "the subscription goes on")
		}

		return nil
	}

	t.Run("end with their context", func(t *testing.T) {
		f := begin(t, h)
		r := f.record(f.driver)
		r.cancel()
		ends(f, r)
	})

	t.Run("end with the connection", func(t *testing.T) {
		need(t, h.Behind.Disconnect != nil, "losing the connection")

		f := begin(t, h)
		r := f.record(f.driver)
		h.Behind.Disconnect(t)
		require.ErrorIs(t, ends(f, r), hypervisor.ErrUnreachable)

		f.eventually(func() bool {
			_, err := f.driver.Domains(f.ctx())

			return err != nil
		}, "calls on a lost connection succeed")

		_, err := f.driver.Domains(f.ctx())
		require.ErrorIs(t, err, hypervisor.ErrConnectionLost)
	})
}

func testClose(t *testing.T, h *Harness) {
	f := begin(t, h)
	r := f.record(f.driver)
	require.NoError(t, f.driver.Close())

	select {
	case err := <-r.ended:
		require.Error(t, err, "the subscription ends with the connection")
	case <-f.ctx().Done():
		require.Fail(t, "the subscription outlives the connection")
	}

	_, err := f.driver.Info(f.ctx())
	require.ErrorIs(t, err, hypervisor.ErrUnreachable)
	require.NotErrorIs(t, err, hypervisor.ErrNotFound)

	_, err = f.driver.Domain(f.ctx(), hypervisor.DomainUUID(h.Gateway, "any"))
	require.ErrorIs(t, err, hypervisor.ErrUnreachable)
	require.NotErrorIs(t, err, hypervisor.ErrNotFound, "unreachable is not \"not found\"")
}
