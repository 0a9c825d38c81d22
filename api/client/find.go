package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultSockets are where a gateway is looked for when none is named: the one of a service, then the one that was started in
// this directory.
var DefaultSockets = []string{"/run/gateway/gateway.sock", "./gateway-data/gateway.sock"}

// dialTimeout bounds one connection to the socket: the kernel answers at once, unless the gateway's backlog is full.
const dialTimeout = 5 * time.Second

// ErrUnreachable means that no gateway answers. Nothing was asked of one.
var ErrUnreachable = errors.New("no gateway is reachable")

// ErrAddress means that a server's address is not one that can be used.
var ErrAddress = errors.New("not a server's address")

// New returns the client of a server: unix:///PATH. It does not connect yet.
func New(server string) (*Client, error) {
	path, err := socketOf(server)
	if err != nil {
		return nil, err
	}

	return newClient(path), nil
}

// socketOf returns the path of the socket that an address names.
func socketOf(server string) (string, error) {
	if filepath.IsAbs(server) {
		return server, nil
	}

	u, err := url.Parse(server)

	switch {
	case err != nil:
		return "", fmt.Errorf("%q: %w: write unix:///PATH", server, ErrAddress)
	case u.Scheme == "https" || u.Scheme == "http":
		return "", fmt.Errorf("%q: %w: servers over %s are not supported in this version, use unix:///PATH", server, ErrAddress, u.Scheme)
	case u.Scheme != "unix" || u.Host+u.Path+u.Opaque == "":
		return "", fmt.Errorf("%q: %w: write unix:///PATH", server, ErrAddress)
	}

	// unix://gateway-data/gateway.sock has its first directory where a host would be.
	return u.Host + u.Path + u.Opaque, nil
}

// Find returns the client of the first of the sockets on which a gateway listens, and its index.
func Find(ctx context.Context, sockets []string) (*Client, int, error) {
	var denied error

	for i, path := range sockets {
		conn, err := dial(ctx, path)
		if err == nil {
			return newClient(path), i, conn.Close()
		}

		if errors.Is(err, os.ErrPermission) && denied == nil {
			denied = fmt.Errorf("%w: %s may not be opened by this user", ErrUnreachable, path)
		}
	}

	if denied != nil {
		return nil, 0, denied
	}

	return nil, 0, fmt.Errorf("%w: none listens on %s: start one with `gateway run`, or name it with --server or GATEWAY_SERVER",
		ErrUnreachable, strings.Join(sockets, " or "))
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
}
