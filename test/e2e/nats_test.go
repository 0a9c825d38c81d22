package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nats is the official command, against one server.
type nats struct {
	t   *testing.T
	url string
	// before is put before the command, as nsenter.
	before []string
}

// cloudEvent is a status as it is on NATS.
type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	Type        string `json:"type"`
	Source      string `json:"source"`
	Subject     string `json:"subject"`
	Data        status `json:"data"`
}

func (n *nats) command(args ...string) *exec.Cmd {
	n.t.Helper()

	path, err := tool("nats")
	require.NoError(n.t, err)

	all := append(append(append([]string{}, n.before...), path, "--server", n.url), args...)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env = environment()

	return cmd
}

// run calls the command and returns what it printed.
func (n *nats) run(args ...string) (string, error) {
	n.t.Helper()

	out, err := n.command(args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), fmt.Errorf("nats %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}

	return string(out), err
}

// follow starts a command that prints what comes, and returns once it says on standard error that it listens. It is ended with the test.
func (n *nats) follow(args ...string) *follower {
	n.t.Helper()

	f := &follower{out: &logBuffer{}, errs: &logBuffer{}, done: make(chan struct{})}
	cmd := n.command(args...)
	cmd.Stdout, cmd.Stderr = f.out, f.errs
	require.NoError(n.t, cmd.Start())

	go func() {
		defer close(f.done)

		// How it ended is seen in what it printed.
		_ = cmd.Wait()
	}()

	n.t.Cleanup(func() {
		// It fails where the command has ended by itself.
		_ = cmd.Process.Kill()
		<-f.done
	})

	return f
}

// follower is a nats command that runs.
type follower struct {
	out, errs *logBuffer
	done      chan struct{}
}

// lines returns the messages so far, of a command with --raw.
func (f *follower) lines() []string {
	text := strings.TrimSpace(f.out.String())
	if text == "" {
		return nil
	}

	return strings.Split(text, "\n")
}

// decodeEvent reads a status.
func decodeEvent(t *testing.T, text string) cloudEvent {
	t.Helper()

	var e cloudEvent
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)

	return e
}

// server is a nats-server process that can be stopped and started again on its port and its files.
type server struct {
	t    *testing.T
	dir  string
	port int

	*process
}

// newServer starts a nats-server with JetStream on a free port, and ends it with the test.
func newServer(t *testing.T) *server {
	t.Helper()

	dir, err := os.MkdirTemp("/tmp", "gwe")
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	s := &server{t: t, dir: dir, port: listener.Addr().(*net.TCPAddr).Port}
	require.NoError(t, listener.Close())
	s.start()

	t.Cleanup(func() {
		s.kill()
		require.NoError(t, os.RemoveAll(dir))
	})

	return s
}

func (s *server) start() {
	s.t.Helper()

	path, err := tool("nats-server")
	require.NoError(s.t, err)

	s.process = startProcess(s.t, s.dir, path, "--addr", "127.0.0.1", "--port", strconv.Itoa(s.port), "--jetstream", "--store_dir", s.dir)

	eventually(s.t, "the nats-server answers", func() error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
		if err != nil {
			return err
		}

		return conn.Close()
	})
}

func (s *server) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// payload returns the body of a message that `nats stream get --json` printed.
func payload(t *testing.T, text string) string {
	t.Helper()

	var message struct {
		Data []byte `json:"data"`
	}

	require.NoError(t, json.Unmarshal([]byte(text), &message), text)

	return string(message.Data)
}
