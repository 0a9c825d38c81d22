// Package readme runs what the README prints, exactly as it is printed.
package readme

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// root is the repository's directory.
func root(t *testing.T) string {
	t.Helper()

	dir, err := filepath.Abs("../..")
	require.NoError(t, err)

	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()

	data, err := os.ReadFile(filepath.Join(root(t), path))
	require.NoError(t, err)

	return string(data)
}

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// script is all shell examples of a section of the README, one after the other.
func script(t *testing.T, heading string) string {
	t.Helper()

	_, section, ok := strings.Cut(read(t, "README.md"), "\n## "+heading+"\n")
	require.True(t, ok, heading)

	section, _, _ = strings.Cut(section, "\n## ")

	var b strings.Builder

	b.WriteString("set -euo pipefail\n")

	for _, block := range shell.FindAllStringSubmatch(section, -1) {
		b.WriteString(block[1])
	}

	return b.String()
}

// binaries is the PATH with the gateway and the nats command, which `make test` builds.
func binaries(t *testing.T) string {
	t.Helper()

	dirs := []string{filepath.Join(root(t), "bin"), filepath.Join(root(t), ".cache", "bin")}
	for _, program := range []string{filepath.Join(dirs[0], "gateway"), filepath.Join(dirs[1], "nats")} {
		if _, err := os.Stat(program); err != nil {
			if os.Getenv("GATEWAY_REQUIRE_E2E") != "" {
				t.Fatalf("%s is missing: run `make build tools`", program)
			}

			t.Skipf("%s is missing: run `make build tools`", program)
		}
	}

	return strings.Join(append(dirs, os.Getenv("PATH")), ":")
}

// run runs a section's examples in an empty directory and returns what they print.
func run(t *testing.T, heading string) string {
	t.Helper()

	// A short path: a unix socket's has at most 107 bytes.
	dir, err := os.MkdirTemp("", "gw")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	cmd := exec.CommandContext(t.Context(), "bash", "-c", script(t, heading))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+binaries(t), "GATEWAY_SERVER=", "NATS_URL=")
	cmd.WaitDelay = 10 * time.Second
	// A process group of its own, so that what an example that failed left running can be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			require.ErrorIs(t, err, syscall.ESRCH, "everything has ended by itself")
		}
	})

	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out

	if err := cmd.Run(); err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*", "gateway.log"))
		for _, log := range logs {
			data, readErr := os.ReadFile(log)
			require.NoError(t, readErr)
			t.Logf("%s:\n%s", log, data)
		}

		t.Fatalf("%s: %s\n%s", heading, err, out.String())
	}

	return out.String()
}

func TestTheFirstVMOfTheREADMEComesUpAndGoes(t *testing.T) {
	out := run(t, "A first VM in five minutes")
	require.Contains(t, out, "web-1")
	require.Contains(t, out, "running")
	require.Contains(t, out, "stopped (override)")
}

func TestEachSourceOfTheREADMEWorksAsPrinted(t *testing.T) {
	out := run(t, "Each source")
	for _, want := range []string{"batch.yaml", `"id"`, "deploy", "nightly", "often", "main-only", "ops.vm.restarted", "deploys.seen"} {
		require.Contains(t, out, want)
	}
}

func TestTheREADMEListsEveryReason(t *testing.T) {
	readme := read(t, "README.md")

	for _, m := range regexp.MustCompile(`Reason\w+\s+= "(\w+)"`).FindAllStringSubmatch(read(t, "resources/condition.go"), -1) {
		require.Regexp(t, `\b`+m[1]+`\b`, readme)
	}
}
