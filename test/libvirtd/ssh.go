package libvirtd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSH is an SSH server on the daemon's machine, for one key: what it is asked to run sees the daemon's files.
type SSH struct {
	daemon   *Daemon
	config   *ssh.ServerConfig
	host     ssh.Signer
	listener net.Listener

	mu          sync.Mutex // guards the following
	connections map[net.Conn]struct{}
	serving     sync.WaitGroup
}

// NewSSH starts the server on a free port of the loopback interface, until the test ends, and writes the client's key to a file.
func NewSSH(t testing.TB, d *Daemon, keyFile string) *SSH {
	t.Helper()

	s := &SSH{daemon: d, connections: map[net.Conn]struct{}{}}
	if err := s.start(keyFile); err != nil {
		t.Fatalf("error starting an SSH server: %s", err)
	}

	t.Cleanup(func() {
		// The listener fails only where it is closed already.
		_ = s.listener.Close()
		s.Drop()
		s.serving.Wait()
	})

	return s
}

func (s *SSH) start(keyFile string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}

	if s.host, err = ssh.NewSignerFromKey(private); err != nil {
		return err
	}

	client, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}

	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		return err
	}

	if err := os.WriteFile(keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}

	authorized, err := ssh.NewPublicKey(client)
	if err != nil {
		return err
	}

	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(authorized.Marshal()) {
			return nil, errors.New("another key")
		}

		return &ssh.Permissions{}, nil
	}}
	s.config.AddHostKey(s.host)

	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}

	s.serving.Go(s.accept)

	return nil
}

// URI is where QEMU is reached through the server, with the client's key.
func (s *SSH) URI(keyFile string) string {
	return fmt.Sprintf("qemu+ssh://root@%s/system?keyfile=%s&no_tty=1", s.listener.Addr(), keyFile)
}

// WriteKnownHosts writes a file by which ssh knows the server.
func (s *SSH) WriteKnownHosts(dir string) error {
	line := knownhosts.Line([]string{knownhosts.Normalize(s.listener.Addr().String())}, s.host.PublicKey())

	return os.WriteFile(filepath.Join(dir, "ssh_known_hosts"), []byte(line+"\n"), 0o644)
}

// Drop cuts all connections.
func (s *SSH) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()

	for c := range s.connections {
		// It fails where the client was faster.
		_ = c.Close()
	}
}

func (s *SSH) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}

		s.mu.Lock()
		s.connections[conn] = struct{}{}
		s.mu.Unlock()

		s.serving.Go(func() {
			s.serve(conn)

			s.mu.Lock()
			delete(s.connections, conn)
			s.mu.Unlock()
		})
	}
}

// serve serves one connection until it ends. What goes wrong is the client's to say.
func (s *SSH) serve(conn net.Conn) {
	defer conn.Close()

	server, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	defer server.Close()

	go ssh.DiscardRequests(requests)

	for open := range channels {
		if open.ChannelType() != "session" {
			_ = open.Reject(ssh.UnknownChannelType, "only sessions")

			continue
		}

		channel, requests, err := open.Accept()
		if err != nil {
			return
		}

		s.serving.Go(func() { s.session(channel, requests) })
	}
}

// session runs what a session is asked to.
func (s *SSH) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()

	for r := range requests {
		var exec struct{ Command string }

		isExec := r.Type == "exec" && ssh.Unmarshal(r.Payload, &exec) == nil
		// It fails where the client is gone.
		_ = r.Reply(isExec, nil)

		if isExec {
			status := struct{ Status uint32 }{s.run(exec.Command, channel)}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&status))

			return
		}
	}
}

// run runs a command among the daemon's files, and returns its exit status.
func (s *SSH) run(command string, channel ssh.Channel) uint32 {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(s.daemon.parent.Process.Pid), "--mount", "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()

	input, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 127
	}

	go func() {
		// The end of the client is the end of the command.
		_, _ = io.Copy(input, channel)
		_ = input.Close()
	}()

	// Its status is what counts.
	_ = cmd.Wait()

	return uint32(max(0, cmd.ProcessState.ExitCode())) //nolint:gosec // 0 to 255
}
