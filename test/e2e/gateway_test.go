package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gateway is a gateway in a directory of its own. Its process can be ended and started again.
type gateway struct {
	t *testing.T
	// dir has documents.d, data, secrets and config.yaml.
	dir string
	// config is above the defaults of a test: documents of YAML, concatenated.
	config string
	// images are the directories that policy lets documents name files in.
	images []string
	// imageURLs is what policy.imageURLs is, as YAML; empty: its default.
	imageURLs string
	// before is put before the program's own arguments, as nsenter.
	before []string

	*process
}

// process is one run of the program.
type process struct {
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	// http and nats are the addresses that it listens on.
	http, nats string
}

// newGateway prepares a gateway; start starts it. config is YAML on top of dataDir, documents and policy.
func newGateway(t *testing.T, config string) *gateway {
	t.Helper()

	// Not t.TempDir: the path of a socket has 107 characters at most.
	dir, err := os.MkdirTemp("/tmp", "gwe")
	require.NoError(t, err)

	g := &gateway{t: t, dir: dir, config: config, images: []string{"/var/lib/libvirt/images"}}
	require.NoError(t, os.Mkdir(g.documents(), 0o755))
	require.NoError(t, os.Mkdir(g.path("secrets"), 0o700))

	t.Cleanup(func() {
		if g.process != nil {
			if t.Failed() {
				t.Logf("the gateway in %s said at last:\n%s", g.dir, g.log.tail(60))
			}

			g.end(syscall.SIGKILL)
			require.NotContains(t, g.log.String(), "panic", "the gateway's log")
		}

		require.NoError(t, os.RemoveAll(dir))
	})

	return g
}

// under makes failures those of a subtest until the returned function is called.
func (g *gateway) under(t *testing.T) (restore func()) {
	before := g.t
	g.t = t

	return func() { g.t = before }
}

func (g *gateway) path(name string) string { return filepath.Join(g.dir, name) }

func (g *gateway) documents() string { return g.path("documents.d") }

// write puts a document into the directory: in one step, as most programs save.
func (g *gateway) write(name, text string) {
	g.t.Helper()

	path := filepath.Join(g.documents(), name)
	require.NoError(g.t, os.WriteFile(path+"~", []byte(text), 0o600))
	require.NoError(g.t, os.Rename(path+"~", path))
}

// remove takes a document away.
func (g *gateway) remove(name string) {
	g.t.Helper()
	require.NoError(g.t, os.Remove(filepath.Join(g.documents(), name)))
}

// launch starts the process and does not wait for anything.
func (g *gateway) launch() {
	g.t.Helper()

	policy := fmt.Sprintf("secretPaths: [%s], paths: [%s]", g.path("secrets"), strings.Join(g.images, ", "))
	if g.imageURLs != "" {
		policy += ", imageURLs: " + g.imageURLs
	}

	text := fmt.Sprintf("dataDir: %s\ndocuments: [%s]\npolicy: {%s}\nhttp: {listen: 127.0.0.1:0}\n%s\n",
		g.path("data"), g.documents(), policy, g.config)
	if !strings.Contains(g.config, "nats:") {
		text += "nats: {embedded: {listen: 127.0.0.1:0}}\n"
	}

	require.NoError(g.t, os.WriteFile(g.path("config.yaml"), []byte(text), 0o600))

	args := append(append([]string{}, g.before...), binary, "run", "--config", g.path("config.yaml"))
	g.process = startProcess(g.t, g.dir, args...)
}

// start starts the gateway and returns when it listens.
func (g *gateway) start() {
	g.t.Helper()
	g.launch()
	g.listens()
}

// listens waits for the gateway's addresses.
func (g *gateway) listens() {
	g.t.Helper()

	embedded := !strings.Contains(g.config, "url:")

	eventually(g.t, "the gateway says where it listens", func() error {
		if !g.alive() {
			g.t.Fatalf("the gateway ended: %s", g.log.tail(20))
		}

		if g.http = g.log.field("the gateway runs", "http"); g.http == "" {
			return errors.New("no HTTP address yet")
		}

		if g.nats = g.log.field("the embedded NATS server listens", "url"); g.nats == "" && embedded {
			return errors.New("no NATS address yet")
		}

		return nil
	})
}

// startProcess starts a program in a process group of its own, in which signals from a terminal do not arrive.
func startProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()

	p := &process{log: &logBuffer{}, exited: make(chan struct{})}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, p.cmd.Start())

	go func() {
		defer close(p.exited)

		// The exit code is asked for by who wants it.
		_ = p.cmd.Wait()
	}()

	return p
}

// environment is that of the test without what would configure a gateway.
func environment(more ...string) []string {
	var env []string

	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GATEWAY_") && !strings.HasPrefix(entry, "NATS_") {
			env = append(env, entry)
		}
	}

	return append(env, more...)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// end sends a signal and waits for the end.
func (p *process) end(signal syscall.Signal) {
	// It fails where the process has ended, which is what is wanted.
	_ = syscall.Kill(p.pid(), signal)
	<-p.exited
}

// kill ends the process as kill -9 does.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop ends the gateway as an operator does, and requires that it ends well and in time.
func (g *gateway) stop() {
	g.t.Helper()
	require.NoError(g.t, syscall.Kill(g.pid(), syscall.SIGTERM))
	require.Equal(g.t, 0, g.exitCode(5*time.Second), "the exit code after SIGTERM\n%s", g.log.tail(20))
}

// exitCode waits for the end of the process.
func (g *gateway) exitCode(limit time.Duration) int {
	g.t.Helper()

	select {
	case <-g.exited:
		return g.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		g.t.Fatalf("the gateway has not ended after %s:\n%s", limit, g.log.tail(20))

		return -1
	}
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

// String returns all that was written.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// tail returns the last lines.
func (l *logBuffer) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")

	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// field returns a field of the last line of the log with a message.
func (l *logBuffer) field(message, name string) (value string) {
	for line := range strings.Lines(l.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
			value, _ = entry[name].(string)
		}
	}

	return value
}
