package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binary is the gateway under test.
var binary string

// buildTags are those of the Makefile.
const buildTags = "libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu"

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}

	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("/tmp", "gwe")
	if err != nil {
		return 1, fmt.Errorf("error making a directory: %w", err)
	}
	defer os.RemoveAll(dir)

	if binary, err = findBinary(dir); err != nil {
		return 1, err
	}

	code := m.Run()

	if skipped := skips.summary(); skipped != "" {
		fmt.Fprint(os.Stderr, skipped)
	}

	return code, nil
}

// findBinary returns the program that GATEWAY_BINARY names, or builds it.
func findBinary(dir string) (string, error) {
	if path := os.Getenv("GATEWAY_BINARY"); path != "" {
		// The variable is for us, and the gateway reads others of that prefix.
		return filepath.Abs(path)
	}

	path := filepath.Join(dir, "gateway")
	cmd := exec.Command("go", "build", "-tags", buildTags, "-o", path, "gateway/cmd/gateway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")

	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("error building the gateway: %w\n%s", err, strings.TrimSpace(string(out)))
	}

	return path, nil
}
