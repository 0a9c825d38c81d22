package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// session is a `gateway console` under way.
type session struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *logBuffer
	errors bytes.Buffer
	ended  chan struct{}
}

// console starts `gateway console`; before is put before the program, as script, which gives it a terminal.
func (g *gateway) console(t *testing.T, before []string, args ...string) *session {
	t.Helper()

	line := append(append([]string{}, before...), append([]string{binary, "console"}, args...)...)
	if len(before) > 0 {
		line = append(append([]string{}, before...), strings.Join(append([]string{binary, "console"}, args...), " "))
	}

	s := &session{cmd: exec.Command(line[0], line[1:]...), out: &logBuffer{}, ended: make(chan struct{})}
	s.cmd.Dir = g.dir
	s.cmd.Env = environment("GATEWAY_SERVER=unix://" + g.path("data/gateway.sock"))
	s.cmd.Stdout, s.cmd.Stderr = s.out, &s.errors

	var err error
	s.in, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())

	go func() {
		defer close(s.ended)

		// The exit code is asked for by who wants it.
		_ = s.cmd.Wait()
	}()

	t.Cleanup(func() {
		// It fails where the session has ended.
		_ = s.cmd.Process.Kill()
		<-s.ended
	})

	return s
}

func (s *session) says(t *testing.T, text string) {
	t.Helper()

	eventually(t, "the console says "+text, func() error {
		if !strings.Contains(s.out.String(), text) {
			return fmt.Errorf("%q", s.out.String())
		}

		return nil
	})
}

func (s *session) types(t *testing.T, text string) {
	t.Helper()

	_, err := io.WriteString(s.in, text)
	require.NoError(t, err)
}

// exits waits for the end, and returns the exit code.
func (s *session) exits(t *testing.T) int {
	t.Helper()

	eventually(t, "the session ends", func() error {
		select {
		case <-s.ended:
			return nil
		default:
			return fmt.Errorf("%q", s.out.String())
		}
	})

	return s.cmd.ProcessState.ExitCode()
}

// TestConsole watches a guest boot on its serial console, and talks to it.
func TestConsole(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, bootingGuest)

	guest, _, g := withGuest(t)
	g.write("guest.yaml", document("VM", "guest", fmt.Sprintf("{memory: 128MiB, boot: {kernel: %s, initrd: %s, cmdline: %q}, shutdown: {grace: 50s}, onGuestShutdown: stay-off}",
		guest.Kernel, guest.Initrd, guest.Cmdline)))
	g.running("guest")

	piped := g.console(t, nil, "guest")
	piped.says(t, "guest: ready")
	piped.types(t, "a line from a script\n")
	piped.says(t, "guest: heard a line from a script")

	_, remarks, code := g.run("console", "guest")
	require.Equal(t, 1, code)
	require.Contains(t, remarks, "gateway: console: somebody else is attached to the console of VM \"guest\": --force takes it over")

	// On a terminal the key to leave is not the guest's.
	terminal := g.console(t, []string{"script", "-qefc"}, "guest", "--force")
	terminal.says(t, "leave with Ctrl-]")
	require.Equal(t, 1, piped.exits(t), "who was attached is told")
	require.Contains(t, piped.errors.String(), "somebody took the console over")

	terminal.types(t, "from a terminal\r")
	terminal.says(t, "guest: heard from a terminal")
	terminal.types(t, "\x1d")
	require.Equal(t, 0, terminal.exits(t))

	// The end of the input is not the end of the output; a signal is.
	quiet := g.console(t, nil, "guest")
	quiet.types(t, "the last words\n")
	require.NoError(t, quiet.in.Close())
	quiet.says(t, "guest: heard the last words")
	require.NoError(t, quiet.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, quiet.exits(t))

	last := g.console(t, nil, "guest")
	last.types(t, "still there\n")
	last.says(t, "guest: heard still there")
	g.cli("stop", "guest")
	require.Equal(t, 0, last.exits(t), last.errors.String())
	require.Contains(t, last.errors.String(), "gateway: console: VM/guest is stopped")

	_, remarks, code = g.run("console", "guest")
	require.Equal(t, 1, code)
	require.Contains(t, remarks, "VM \"guest\" is not running: `gateway start guest`")
}
