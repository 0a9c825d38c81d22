package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

type peerKey struct{}

// withPeer notes who opened the connection, as the kernel says.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}

	raw, err := c.SyscallConn()
	if err != nil {
		return ctx
	}

	var credentials *unix.Ucred

	err = raw.Control(func(fd uintptr) { credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || credentials == nil {
		return ctx
	}

	name := strconv.FormatUint(uint64(credentials.Uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}

	return context.WithValue(ctx, peerKey{}, fmt.Sprintf("user:%s (pid %d)", name, credentials.Pid))
}

// peerOf is who sent the request: user:NAME (pid N).
func peerOf(r *http.Request) string {
	if p, ok := r.Context().Value(peerKey{}).(string); ok {
		return p
	}

	return "user:unknown"
}

type callerKey struct{}

// withCaller notes the operator who asks, with the id of this one command.
func withCaller(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, NewCaller(apiOrigin, nil, peerOf(r))))
}

// callerOf is the operator whose request it is.
func callerOf(r *http.Request) Caller {
	c, _ := r.Context().Value(callerKey{}).(Caller)

	return c
}
