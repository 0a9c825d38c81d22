//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
)

// laneOf is a lane with one connection, which counts those that are opened.
func laneOf(limit int, opened *atomic.Int64) *lane {
	l := newLane(limit, func(context.Context) (*libvirt.Connect, error) {
		opened.Add(1)
		time.Sleep(time.Millisecond)

		return &libvirt.Connect{}, nil
	})
	l.add(&libvirt.Connect{})

	return l
}

func TestAConnectionServesOneCallAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			opened atomic.Int64
			mu     sync.Mutex
			inUse  = map[*libvirt.Connect]bool{}
			calls  sync.WaitGroup
		)

		l := laneOf(4, &opened)

		for range 100 {
			calls.Go(func() {
				conn, err := l.take(t.Context(), nil)
				require.NoError(t, err)

				mu.Lock()
				require.False(t, inUse[conn], "two calls share a connection")
				inUse[conn] = true
				require.LessOrEqual(t, len(inUse), 4)
				mu.Unlock()

				time.Sleep(5 * time.Millisecond)

				mu.Lock()
				inUse[conn] = false
				mu.Unlock()

				l.put(conn)
			})
		}

		calls.Wait()
		require.Len(t, inUse, 4, "a burst is served by all connections that there may be")
		require.EqualValues(t, 3, opened.Load())
		require.Len(t, l.drain(), 4)
	})
}

func TestACallThatIsStuckHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int64

		l := laneOf(2, &opened)
		stuck, err := l.take(t.Context(), nil)
		require.NoError(t, err)

		began := time.Now()
		other, err := l.take(t.Context(), nil)
		require.NoError(t, err)
		require.NotSame(t, stuck, other)
		require.Less(t, time.Since(began), 2*growAfter)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, err = l.take(ctx, nil)
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.EqualValues(t, 1, opened.Load(), "no more than the limit")

		lost := make(chan struct{})
		close(lost)

		none, err := l.take(t.Context(), lost)
		require.NoError(t, err)
		require.Nil(t, none)

		l.put(stuck)
		l.put(other)
	})
}

func TestAConnectionThatServesItsCallsStaysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int64

		l := laneOf(4, &opened)

		for range 1000 {
			conn, err := l.take(t.Context(), nil)
			require.NoError(t, err)

			second := make(chan struct{})

			go func() {
				defer close(second)

				conn, err := l.take(t.Context(), nil)
				require.NoError(t, err)
				l.put(conn)
			}()

			time.Sleep(time.Millisecond)
			l.put(conn)
			<-second
		}

		require.Zero(t, opened.Load())
	})
}

func TestWhyThereIsNoOtherConnectionIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		l := newLane(2, func(context.Context) (*libvirt.Connect, error) {
			tries++

			return nil, errors.New("too many clients")
		})
		l.add(&libvirt.Connect{})

		held, err := l.take(t.Context(), nil)
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), growAgain+time.Second)
		defer cancel()

		_, err = l.take(ctx, nil)
		require.ErrorIs(t, err, hypervisor.ErrUnreachable)
		require.ErrorContains(t, err, "all 1 connections are in use, and another one could not be opened: too many clients")
		require.Equal(t, 2, tries, "tried again after a while, not at every call")

		l.put(held)
		require.Len(t, l.drain(), 1)

		l.grow()
		synctest.Wait()
		require.Equal(t, 2, tries, "none is opened any more")
	})
}
