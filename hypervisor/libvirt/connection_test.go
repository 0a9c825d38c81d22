//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/test/libvirtd"
)

func TestErrorsHaveTheirMeaning(t *testing.T) {
	failure := func(code libvirt.ErrorNumber, domain libvirt.ErrorDomain, message string) error {
		return fmt.Errorf("error doing it: %w", libvirt.Error{Code: code, Domain: domain, Message: message})
	}

	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"no domain":                         {failure(libvirt.ERR_NO_DOMAIN, libvirt.FROM_QEMU, ""), hypervisor.ErrNotFound},
		"no network":                        {failure(libvirt.ERR_NO_NETWORK, libvirt.FROM_NETWORK, ""), hypervisor.ErrNotFound},
		"no pool":                           {failure(libvirt.ERR_NO_STORAGE_POOL, libvirt.FROM_STORAGE, ""), hypervisor.ErrNotFound},
		"no volume":                         {failure(libvirt.ERR_NO_STORAGE_VOL, libvirt.FROM_STORAGE, ""), hypervisor.ErrNotFound},
		"a wrong state":                     {failure(libvirt.ERR_OPERATION_INVALID, libvirt.FROM_QEMU, ""), hypervisor.ErrBusy},
		"a job that holds the domain":       {failure(libvirt.ERR_OPERATION_TIMEOUT, libvirt.FROM_QEMU, ""), hypervisor.ErrBusy},
		"a pool that works":                 {failure(libvirt.ERR_INTERNAL_ERROR, libvirt.FROM_STORAGE, "pool 'x' has asynchronous jobs running."), hypervisor.ErrBusy},
		"a monitor that is lost":            {failure(libvirt.ERR_SYSTEM_ERROR, libvirt.FROM_QEMU, "Unable to read from monitor: Connection reset by peer"), hypervisor.ErrBusy},
		"a guest that KVM failed under":     {failure(libvirt.ERR_INTERNAL_ERROR, libvirt.FROM_QEMU, "unable to execute QEMU command 'cont': Resetting the Virtual Machine is required"), hypervisor.ErrBroken},
		"a bad argument":                    {failure(libvirt.ERR_INVALID_ARG, libvirt.FROM_QEMU, ""), hypervisor.ErrInvalid},
		"bad XML":                           {failure(libvirt.ERR_XML_ERROR, libvirt.FROM_DOMAIN, ""), hypervisor.ErrInvalid},
		"a configuration that can't be":     {failure(libvirt.ERR_CONFIG_UNSUPPORTED, libvirt.FROM_QEMU, ""), hypervisor.ErrUnsupported},
		"a function that the driver lacks":  {failure(libvirt.ERR_NO_SUPPORT, libvirt.FROM_REMOTE, ""), hypervisor.ErrUnsupported},
		"a function that the library lacks": {failure(libvirt.ERR_INTERNAL_ERROR, libvirt.FROM_NONE, "undefined symbol: virNew"), hypervisor.ErrUnsupported},
		"a socket that is closed":           {failure(libvirt.ERR_INTERNAL_ERROR, libvirt.FROM_RPC, "client socket is closed"), hypervisor.ErrConnectionLost},
		"a peer that went away":             {failure(libvirt.ERR_SYSTEM_ERROR, libvirt.FROM_RPC, "Cannot write data: Broken pipe"), hypervisor.ErrConnectionLost},
		"an error of the port":              {hypervisor.ErrForeign, hypervisor.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, classify(test.err), test.want) })
	}

	require.NoError(t, classify(nil))

	missing := classify(failure(libvirt.ERR_SYSTEM_ERROR, libvirt.FROM_STORAGE, "Cannot access storage file '/x': No such file or directory"))
	require.NotErrorIs(t, missing, hypervisor.ErrUnreachable, "a file that is not there is no lost connection")
	require.ErrorContains(t, missing, "error doing it: Cannot access storage file '/x'")
}

func TestAHostThatCannotBeReachedIsUnreachable(t *testing.T) {
	for _, uri := range []string{"qemu+unix:///system?socket=/nowhere/sock", "test:///no/such/file", "nonsense:///"} {
		_, err := Open(t.Context(), uri, gatewayID)
		require.ErrorIs(t, err, hypervisor.ErrUnreachable, uri)
		require.ErrorContains(t, err, uri)
	}
}

func TestAConnectionThatHangsIsAbandoned(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})
	require.NoError(t, daemon.Stop())

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	began := time.Now()
	_, err := Open(ctx, daemon.TestURI(), gatewayID)
	require.ErrorIs(t, err, hypervisor.ErrUnreachable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, daemon.Cont())
}

func TestConnectionsLeaveNothingBehind(t *testing.T) {
	daemon := libvirtd.New(t, libvirtd.Options{})

	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)

		return len(open)
	}

	cycle := func() {
		d, err := Open(t.Context(), daemon.TestURI(), gatewayID)
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)

		for range 2 {
			ready := make(chan struct{})

			go func() { ended <- d.Events(ctx, func() { close(ready) }, func(hypervisor.Event) {}) }()

			select {
			case <-ready:
			case err := <-ended:
				require.NoError(t, err)
			}
		}

		_, err = d.Domains(t.Context())
		require.NoError(t, err)

		// One subscription ends before the connection, as it may; the other with it.
		require.NoError(t, d.Close())
		require.ErrorIs(t, <-ended, hypervisor.ErrConnectionLost)
		cancel()
		<-ended
	}

	cycle()

	before := descriptors()

	for range 5 {
		cycle()
	}

	// The event loop lets go of the last references.
	require.Eventually(t, func() bool { return descriptors() <= before }, 10*time.Second, 20*time.Millisecond)
}

func TestAnObjectIsChangedByOneCallAtATime(t *testing.T) {
	l := newLocks()

	first, err := l.take(t.Context(), "domain/x")
	require.NoError(t, err)

	other, err := l.take(t.Context(), "domain/y")
	require.NoError(t, err)
	l.release(other)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()

	_, err = l.take(ctx, "domain/x")
	require.ErrorIs(t, err, hypervisor.ErrBusy)
	require.False(t, errors.Is(err, context.DeadlineExceeded), "a caller's deadline is no error of its own")

	next := make(chan *hold)

	go func() {
		h, err := l.take(t.Context(), "domain/x")
		if err != nil {
			h = nil
		}
		next <- h
	}()

	l.release(first)

	second := <-next
	require.NotNil(t, second)

	l.abandon(second)

	_, err = l.take(t.Context(), "domain/x")
	require.ErrorIs(t, err, hypervisor.ErrBusy, "an object whose call is stuck is busy at once")

	l.release(second)

	third, err := l.take(t.Context(), "domain/x")
	require.NoError(t, err)
	l.release(third)
	require.Empty(t, l.held)
}

func TestEventsThatNobodyTakesEndTheConnection(t *testing.T) {
	q := newQueue()
	for range maxQueued + 1 {
		q.put(hypervisor.Event{})
	}

	events, overflow := q.take()
	require.Len(t, events, maxQueued)
	require.True(t, overflow)
}
