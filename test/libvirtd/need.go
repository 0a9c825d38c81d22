package libvirtd

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// SkipLog names the environment variable with the file to which every skipped test is appended, one per line, so that a
// run can say at its end what it did not test.
const SkipLog = "GATEWAY_TEST_SKIPPED"

// skipped counts the tests that were skipped in this process.
var skipped atomic.Int64

// binaries are what a private daemon with QEMU and networks needs.
var binaries = []string{"/usr/sbin/libvirtd", "virsh", "qemu-system-x86_64", "qemu-img", "dnsmasq", "ip"}

// Need skips a test that needs a private libvirtd where there can be none, and says why.
func Need(t testing.TB) {
	t.Helper()

	if err := Possible(); err != nil {
		Skip(t, err)
	}
}

// Possible returns what is missing for a private libvirtd; nil: nothing.
func Possible() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("a private libvirtd needs root")
	}

	for _, name := range binaries {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install libvirt-daemon-system libvirt-daemon-driver-qemu "+
				"libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iproute2", name)
		}
	}

	return nil
}

// Skip skips a test with a reason, and notes that in the log of what was not tested.
func Skip(t testing.TB, why error) {
	t.Helper()

	n := skipped.Add(1)

	if file := os.Getenv(SkipLog); file != "" {
		line := fmt.Sprintf("%s: %s\n", t.Name(), why)
		if err := appendTo(file, line); err != nil {
			t.Fatalf("error noting that the test is skipped: %s", err)
		}
	}

	t.Skipf("skipped (number %d of this package): %s", n, why)
}

func appendTo(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}

	return err
}

// NeedGuest returns the guest for a test, and skips the test, with the reason, where it can't be built.
func NeedGuest(t testing.TB) *Guest {
	t.Helper()
	Need(t)

	g, err := BuildGuest(t.Context())
	if err != nil {
		Skip(t, err)
	}

	return g
}
