package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gateway/test/libvirtd"
)

// part is something real that a group of tests needs.
type part struct {
	name string
	// missing returns what keeps it from being used.
	missing func() error
}

var (
	privateLibvirtd = part{"a private libvirtd with QEMU", libvirtd.Possible}
	bootingGuest    = part{"a guest that boots", func() error {
		_, err := libvirtd.BuildGuest(context.Background())

		return err
	}}
	networkSpaces = part{"network namespaces", namespaces}
	natsServer    = part{"a nats-server process", toolMissing("nats-server")}
	natsCLI       = part{"the nats command", toolMissing("nats")}
)

// requireAll makes a missing part a failure.
const requireAll = "GATEWAY_REQUIRE_E2E"

// skips are the groups that were skipped in this process.
var skips skipList

type skipList struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// need skips the group, and says why, where parts are missing.
func need(t *testing.T, parts ...part) {
	t.Helper()

	for _, p := range parts {
		err := p.missing()
		if err == nil {
			continue
		}

		if os.Getenv(requireAll) == "1" {
			t.Fatalf("%s is needed, as %s=1 says: %s", p.name, requireAll, err)
		}

		skips.mu.Lock()
		skips.lines = append(skips.lines, fmt.Sprintf("%s: %s is missing: %s", t.Name(), p.name, err))
		skips.mu.Unlock()
		t.Skipf("%s is missing: %s", p.name, err)
	}
}

// summary says what was not tested; nothing where all was.
func (s *skipList) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.lines) == 0 {
		return ""
	}

	return fmt.Sprintf("end-to-end groups that were SKIPPED: %d\n  %s\n", len(s.lines), strings.Join(s.lines, "\n  "))
}

func namespaces() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed")
	}

	for _, name := range []string{"unshare", "nsenter", "setpriv", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}

	return nil
}

// tool returns the path of a third-party program: of the PATH, or the one that `make tools` built.
func tool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}

	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", "bin", name))
	if err != nil {
		return "", err
	}

	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is neither in the PATH nor in .cache/bin: run `make tools`", name)
	}

	return path, nil
}

func toolMissing(name string) func() error {
	return func() error {
		_, err := tool(name)

		return err
	}
}
