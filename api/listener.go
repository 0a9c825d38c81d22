package api

import (
	"log"
	"net"
	"sync"

	"go.uber.org/zap"
)

// limited is a listener with a bound on open connections.
type limited struct {
	net.Listener

	slots chan struct{}
}

func limitListener(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n)}
}

// Accept waits for a slot first, so that a connection that can't be served stays in the kernel's queue.
func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}

	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots

		return nil, err
	}

	return &slotted{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// slotted gives its slot back when it is closed.
type slotted struct {
	net.Conn

	release func()
}

// Close closes the connection.
func (s *slotted) Close() error {
	defer s.release()

	return s.Conn.Close()
}

// quiet is a standard logger for what net/http says about single connections: worth a line only when looked for.
func quiet(logger *zap.Logger) *log.Logger {
	l, err := zap.NewStdLogAt(logger.Named("http"), zap.DebugLevel)
	if err != nil { // only for an unknown level
		return log.Default()
	}

	return l
}
