package api

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnectionsAboveTheLimitWaitUntilOneEnds(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	l := limitListener(inner, 2)
	accepted := make(chan net.Conn)

	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)

				return
			}

			accepted <- conn
		}
	}()

	for range 3 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err, "the kernel keeps who waits")
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
	}

	first, second := <-accepted, <-accepted

	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}

	require.NoError(t, first.Close())

	third := <-accepted
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	require.NoError(t, l.Close())

	_, open := <-accepted
	require.False(t, open)
}
