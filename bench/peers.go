package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gateway/config"
)

// hooksArgs are the arguments of the servers that pushes are sent to.
type hooksArgs struct {
	Dir string
	// JetStream publishes before the answer, in the peer.
	JetStream bool
}

// listening is what such a server says when it is ready.
type listening struct{ Address, Path string }

// peerJob is net/http with a check of the signature, and, if asked for, a publish whose acknowledgement it waits for, on a
// server that syncs each message to the disk.
func peerJob(ctx context.Context, c *childContext) (any, error) {
	var args hooksArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	publish := func(context.Context, []byte, string) error { return nil }

	if args.JetStream {
		js, stop, err := startJetStream(ctx, args.Dir, true)
		if err != nil {
			return nil, err
		}
		defer stop()

		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "PUSHES", Subjects: []string{"pushes"}}); err != nil {
			return nil, err
		}

		publish = func(ctx context.Context, body []byte, id string) error {
			_, err := js.Publish(ctx, "pushes", body, jetstream.WithMsgID(id))

			return err
		}
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	s := &http.Server{Handler: signedHandler(publish), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)

	go func() { done <- s.Serve(listener) }()

	err = c.serve(listening{Address: listener.Addr().String(), Path: "/"})
	err = errors.Join(err, s.Close())

	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}

	return struct{}{}, err
}

// signedHandler is what anybody would write first.
func signedHandler(publish func(ctx context.Context, body []byte, id string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)

			return
		}

		mac := hmac.New(sha256.New, []byte(pushSecret))
		mac.Write(body)

		if !hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(r.Header.Get("X-Hub-Signature-256"))) {
			w.WriteHeader(http.StatusUnauthorized)

			return
		}

		if err := publish(r.Context(), body, r.Header.Get("X-GitHub-Delivery")); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)

			return
		}

		w.WriteHeader(http.StatusAccepted)
	})
}

// startJetStream starts a server in this process and connects to it without a network.
func startJetStream(_ context.Context, dir string, sync bool) (jetstream.JetStream, func(), error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "bench", DontListen: true, JetStream: true, StoreDir: filepath.Join(dir, "jetstream"), NoSigs: true, NoLog: true, SyncAlways: sync,
	})
	if err != nil {
		return nil, nil, err
	}

	s.Start()

	if !s.ReadyForConnections(10 * time.Second) {
		return nil, nil, errors.New("the NATS server does not start")
	}

	connection, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, nil, err
	}

	js, err := jetstream.New(connection)

	return js, func() {
		connection.Close()
		s.Shutdown()
		s.WaitForShutdown()
	}, err
}

// hooksJob is a whole gateway with one route for pushes.
func hooksJob(ctx context.Context, c *childContext) (any, error) {
	var args hooksArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	secret := filepath.Join(args.Dir, "secret")
	if err := os.WriteFile(secret, []byte(pushSecret), 0o600); err != nil {
		return nil, err
	}

	i, err := startGateway(ctx, args.Dir, func(cfg *config.Config) { cfg.Policy.SecretPaths = []string{args.Dir} })
	if err != nil {
		return nil, err
	}

	hook := fmt.Sprintf("apiVersion: gateway/v1alpha1\nkind: Webhook\nmetadata: {name: push}\nspec:\n  auth: {github: {secretFiles: [%q]}}\n"+
		"  limits: {rate: 1000000/s, concurrency: 1024}\n", secret)
	if err := i.drop("hooks", map[string]string{"push.yaml": hook}); err != nil {
		return nil, err
	}

	err = poll(ctx, func() (bool, error) {
		response, err := http.Get("http://" + i.HTTPAddr() + "/hooks/push")
		if err != nil {
			return false, err
		}

		return response.StatusCode == http.StatusMethodNotAllowed, response.Body.Close()
	})
	if err == nil {
		err = c.serve(listening{Address: i.HTTPAddr(), Path: "/hooks/push"})
	}

	return struct{}{}, errors.Join(err, i.stop())
}
