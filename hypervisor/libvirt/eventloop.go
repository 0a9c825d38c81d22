//go:build libvirt_dlopen

package libvirt

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"libvirt.org/go/libvirt"
)

// startEventLoop registers libvirt's event loop and runs it until the process ends. libvirt wants it before the first
// connection, and once only. All callbacks run on its goroutine, one by one: one that blocks stops the keepalives of every
// connection, and libvirtd then drops them all.
var startEventLoop = sync.OnceValue(func() error {
	if err := libvirt.EventRegisterDefaultImpl(); err != nil {
		return fmt.Errorf("error starting libvirt's event loop: %w", explainMissing(err))
	}

	go func() {
		for {
			// It fails only where poll does; libvirt reports that through every connection. The pause keeps such a
			// failure from taking a CPU.
			if err := libvirt.EventRunDefaultImpl(); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()

	return nil
})

// explainMissing says what to install where libvirt's library is not there. The failure is kept by the bindings: it takes
// a restart of the program after the installation.
func explainMissing(err error) error {
	if !strings.Contains(err.Error(), "libvirt.so.0") {
		return err
	}

	return fmt.Errorf("%w: libvirt is not installed here: install the Debian package libvirt0 (for a hypervisor on this "+
		"machine libvirt-daemon-system, with libvirt-daemon-driver-qemu), then start the gateway again", err)
}
