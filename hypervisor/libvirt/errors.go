//go:build libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"
	"strings"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
)

// classes are the meanings of libvirt's error codes for the port. A code that is not here is a failure of which nothing is
// known beforehand: it is reported as it is, and tried again with backoff.
var classes = map[libvirt.ErrorNumber]error{
	libvirt.ERR_NO_DOMAIN:       hypervisor.ErrNotFound,
	libvirt.ERR_NO_NETWORK:      hypervisor.ErrNotFound,
	libvirt.ERR_NO_STORAGE_POOL: hypervisor.ErrNotFound,
	libvirt.ERR_NO_STORAGE_VOL:  hypervisor.ErrNotFound,

	// The object is in another state than it was when we looked, or held by another job.
	libvirt.ERR_OPERATION_INVALID:  hypervisor.ErrBusy,
	libvirt.ERR_OPERATION_TIMEOUT:  hypervisor.ErrBusy,
	libvirt.ERR_RESOURCE_BUSY:      hypervisor.ErrBusy,
	libvirt.ERR_AGENT_UNRESPONSIVE: hypervisor.ErrBusy,
	libvirt.ERR_AGENT_UNSYNCED:     hypervisor.ErrBusy,

	libvirt.ERR_INVALID_ARG:        hypervisor.ErrInvalid,
	libvirt.ERR_XML_ERROR:          hypervisor.ErrInvalid,
	libvirt.ERR_XML_DETAIL:         hypervisor.ErrInvalid,
	libvirt.ERR_XML_INVALID_SCHEMA: hypervisor.ErrInvalid,
	libvirt.ERR_CPU_INCOMPATIBLE:   hypervisor.ErrInvalid,
	libvirt.ERR_ACCESS_DENIED:      hypervisor.ErrInvalid,
	libvirt.ERR_OPERATION_DENIED:   hypervisor.ErrInvalid,
	libvirt.ERR_STORAGE_POOL_BUILT: hypervisor.ErrInvalid,

	libvirt.ERR_NO_SUPPORT:            hypervisor.ErrUnsupported,
	libvirt.ERR_CONFIG_UNSUPPORTED:    hypervisor.ErrUnsupported,
	libvirt.ERR_ARGUMENT_UNSUPPORTED:  hypervisor.ErrUnsupported,
	libvirt.ERR_OPERATION_UNSUPPORTED: hypervisor.ErrUnsupported,

	libvirt.ERR_RPC:              hypervisor.ErrConnectionLost,
	libvirt.ERR_INVALID_CONN:     hypervisor.ErrConnectionLost,
	libvirt.ERR_NO_CONNECT:       hypervisor.ErrConnectionLost,
	libvirt.ERR_UNKNOWN_HOST:     hypervisor.ErrConnectionLost,
	libvirt.ERR_AUTH_FAILED:      hypervisor.ErrConnectionLost,
	libvirt.ERR_AUTH_UNAVAILABLE: hypervisor.ErrConnectionLost,
	libvirt.ERR_GNUTLS_ERROR:     hypervisor.ErrConnectionLost,
	libvirt.ERR_SSH:              hypervisor.ErrConnectionLost,
	libvirt.ERR_LIBSSH:           hypervisor.ErrConnectionLost,
}

// transports are the parts of libvirt whose errors are about the connection, whatever their code is.
var transports = map[libvirt.ErrorDomain]bool{
	libvirt.FROM_RPC:    true,
	libvirt.FROM_REMOTE: true,
	libvirt.FROM_SSH:    true,
	libvirt.FROM_LIBSSH: true,
	libvirt.FROM_AUTH:   true,
}

// classify returns an error of the port that has libvirt's message, and nil for nil. Errors that are of the port already
// stay as they are.
func classify(err error) error {
	var lv libvirt.Error
	if err == nil || !errors.As(err, &lv) {
		return err
	}

	class := classes[lv.Code]

	switch {
	case transports[lv.Domain]:
		// The daemon answers for drivers of its own too: what it does not support, and what it does not find.
		if class == nil || !errors.Is(class, hypervisor.ErrNotFound) && !errors.Is(class, hypervisor.ErrUnsupported) {
			class = hypervisor.ErrConnectionLost
		}
	case strings.Contains(lv.Message, "Resetting the Virtual Machine is required"):
		// QEMU's answer when KVM failed, or the guest's state is no longer one that can be run.
		class = hypervisor.ErrBroken
	case strings.Contains(lv.Message, "undefined symbol"):
		// The function is newer than the libvirt of this machine.
		class = hypervisor.ErrUnsupported
	case lv.Code == libvirt.ERR_SYSTEM_ERROR && lv.Domain == libvirt.FROM_QEMU && strings.Contains(lv.Message, "monitor"):
		// The domain's QEMU is going away under the call.
		class = hypervisor.ErrBusy
	case lv.Code == libvirt.ERR_INTERNAL_ERROR && strings.Contains(lv.Message, "asynchronous jobs"):
		class = hypervisor.ErrBusy
	}

	// The bindings' own text is for programmers.
	text := strings.ReplaceAll(err.Error(), lv.Error(), fmt.Sprintf("%s (libvirt error %d of %d)", lv.Message, lv.Code, lv.Domain))

	if class == nil {
		return errors.New(text)
	}

	return fmt.Errorf("%w: %s", class, text)
}

// isCode reports whether an error is libvirt's with one of these codes.
func isCode(err error, codes ...libvirt.ErrorNumber) bool {
	var lv libvirt.Error
	if !errors.As(err, &lv) {
		return false
	}

	for _, code := range codes {
		if lv.Code == code {
			return true
		}
	}

	return false
}
