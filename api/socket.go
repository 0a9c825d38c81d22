package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"gateway/config"
	"gateway/sources/intake"
	"gateway/store"
)

// SocketOptions configure the operators' socket.
type SocketOptions struct {
	// DataDir is where the socket is, unless systemd gives a RUNTIME_DIRECTORY.
	DataDir   string
	Store     store.Store
	Admission *store.Admission
	Pacer     intake.Pacer
	// Documents are the configured directories, for messages.
	Documents []string
	// Deletions say when a diff is told to be a mass deletion.
	Deletions config.Deletions
	Version   string
	Logger    *zap.Logger
	// DrainCheck says what a drain of a host would do with its VMs; nil: nothing can be said.
	DrainCheck func(ctx context.Context, host string) ([]DrainedVM, error)
	// Planner says what would be done to domains; nil: a diff is of the documents alone.
	Planner Planner
	// Broker is what was published; nil: nothing can be known of it.
	Broker Broker
	// Hypervisors are asked for domains and consoles.
	Hypervisors Hypervisors
}

const (
	// SocketName is the file name of the socket.
	SocketName = "gateway.sock"
	// maxMessage bounds a gRPC message: COSI's 4 MiB hold about 8,500 of our resources in one aggregated bootstrap; 64 MiB
	// hold 100,000.
	maxMessage = 64 << 20
	// maxSocketPath is the kernel's limit of a unix socket's path.
	maxSocketPath = 107
)

// Socket is the operators' way in: who can open it is an operator. It serves the COSI state API over gRPC and the
// operations of the command line over HTTP, on one unix socket.
type Socket struct {
	path     string
	listener net.Listener
	server   *http.Server
}

// ListenSocket makes the socket, mode 0660. The data directory is locked by us, so a socket that is there is stale.
func ListenSocket(o SocketOptions) (*Socket, error) {
	dir := os.Getenv("RUNTIME_DIRECTORY") // set by systemd
	if dir == "" {
		dir = o.DataDir
	}

	path, err := filepath.Abs(filepath.Join(dir, SocketName))
	if err != nil {
		return nil, fmt.Errorf("error finding the socket's directory: %w", err)
	}

	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket's path %s has %d bytes, at most %d are possible: choose a shorter dataDir", path, len(path), maxSocketPath)
	}

	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("error removing a stale socket: %w", err)
	}

	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("error listening on %s: %w", path, err)
	}

	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("error setting the mode of %s: %w", path, err), listener.Close())
	}

	guarded := state.WrapCore(o.Admission.Guard(o.Store.State()))
	rpc := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.UnaryInterceptor(durable(o.Store)))
	v1alpha1.RegisterStateServer(rpc, server.NewState(guarded))

	ops := &operations{Operations: NewOperations(o)}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	return &Socket{path: path, listener: listener, server: &http.Server{
		Handler: dispatch(rpc, ops.handler()), Protocols: protocols, ReadHeaderTimeout: headerTimeout,
		ErrorLog: quiet(o.Logger), ConnContext: withPeer,
	}}, nil
}

// dispatch tells gRPC, which is HTTP/2 of its own content type, from the operations.
func dispatch(rpc *grpc.Server, ops http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			rpc.ServeHTTP(w, r)

			return
		}

		ops.ServeHTTP(w, r)
	})
}

// durable answers a write over gRPC only once it is on disk.
func durable(barrier store.Barrier) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if err != nil {
			return resp, err
		}

		switch req.(type) {
		case *v1alpha1.CreateRequest, *v1alpha1.UpdateRequest, *v1alpha1.DestroyRequest:
			if err := barrier.Barrier(ctx); err != nil {
				return nil, fmt.Errorf("error waiting for the store: %w", err)
			}
		}

		return resp, nil
	}
}

// Path is where the socket is.
func (s *Socket) Path() string { return s.path }

// Run serves until ctx ends.
func (s *Socket) Run(ctx context.Context) error {
	done := make(chan error, 1)

	go func() { done <- s.server.Serve(s.listener) }()

	select {
	case err := <-done:
		return fmt.Errorf("error serving %s: %w", s.path, err)
	case <-ctx.Done():
	}

	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()

	if err := s.server.Shutdown(limited); err != nil {
		return s.server.Close() // watches never end by themselves
	}

	return nil
}

// Close removes the socket; after Run it is gone already.
func (s *Socket) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("error closing %s: %w", s.path, err)
	}

	return nil
}
