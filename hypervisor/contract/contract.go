package contract

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
)

// Harness is a driver under test, on a host that the suite may fill.
type Harness struct {
	// Open connects to the host; each call to the same one. The suite closes what it opened.
	Open func(t *testing.T) hypervisor.Driver
	// OpenAs connects with another id. May be nil.
	OpenAs func(t *testing.T, gateway string) hypervisor.Driver
	// Gateway is the id that Open connects with.
	Gateway string
	// Prepare adds to a spec what domains need on this host, as a kernel or a type of firmware. May be nil.
	Prepare func(spec *hypervisor.DomainSpec)

	Capabilities Capabilities
	Behind       Behind
}

// Capabilities are what a host can do. What it can't is skipped by name.
type Capabilities struct {
	Networks bool
	// DHCP reports whether a running guest gets the address of its entry, within Patience.
	DHCP    bool
	Volumes bool
	Images  bool
	Pause   bool
	// Shutdown reports whether guests heed the power button, within Patience.
	Shutdown bool
	// HotPlug reports whether disks and interfaces come and go while a guest runs, and whether it gives memory back, within
	// Patience.
	HotPlug bool
	// Console is what a running guest prints within Patience on its console, where it repeats what is typed; empty: there is none.
	Console string
	// EventsOrdered reports whether events arrive in the order in which things happened.
	EventsOrdered bool
	// Patience bounds waiting for what takes effect later; default 10 s.
	Patience time.Duration
}

// Behind is what others than the gateway do to the host. A nil function leaves out its tests.
type Behind struct {
	// Define makes a domain that carries no mark, and is off.
	Define func(t *testing.T, name, uuid string)
	// Start, Destroy and Undefine do what virsh does; they also clean up what Define made.
	Start    func(t *testing.T, uuid string)
	Destroy  func(t *testing.T, uuid string)
	Undefine func(t *testing.T, uuid string)
	// SetMemory changes the inactive definition.
	SetMemory func(t *testing.T, uuid string, memory resources.Size)
	// AddDisk gives the inactive definition a disk of a raw file.
	AddDisk func(t *testing.T, uuid, path string)
	// DefineNetwork makes a network that is not ours, RemoveNetwork removes it.
	DefineNetwork func(t *testing.T, name string)
	RemoveNetwork func(t *testing.T, name string)
	// NetworkStarts counts the starts of a network: any number that differs after a restart.
	NetworkStarts func(t *testing.T, name string) int
	// AddFile puts a file on the host and returns its path.
	AddFile func(t *testing.T, content []byte) string
	// Disconnect ends the connections of all drivers, from the other side.
	Disconnect func(t *testing.T)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.Capabilities.Patience == 0 {
		h.Capabilities.Patience = 10 * time.Second
	}

	groups := []struct {
		name string
		run  func(t *testing.T, h *Harness)
	}{
		{"Info", testInfo},
		{"NotFound", testNotFound},
		{"Define", testDefine},
		{"Power", testPower},
		{"RestartRequired", testRestartRequired},
		{"Live", testLive},
		{"Foreign", testForeign},
		{"Behind", testBehind},
		{"Events", testEvents},
		{"Networks", testNetworks},
		{"Volumes", testVolumes},
		{"Images", testImages},
		{"Seeds", testSeeds},
		{"Console", testConsole},
		{"Close", testClose},
	}

	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, &h) })
	}
}

// sequence makes names that no earlier run in this process has used.
var sequence atomic.Int64

// fixture is one test on one connection.
type fixture struct {
	*testing.T

	h      *Harness
	driver hypervisor.Driver
}

// begin opens a connection for a test.
func begin(t *testing.T, h *Harness) *fixture {
	t.Helper()

	d := h.Open(t)
	t.Cleanup(func() { require.NoError(t, d.Close()) })

	return &fixture{T: t, h: h, driver: d}
}

// need skips a test that the host can't do.
func need(t *testing.T, can bool, what string) {
	t.Helper()

	if !can {
		t.Skipf("this host can't do: %s", what)
	}
}

// spec returns a small domain that is not there yet, and is removed when the test ends.
func (f *fixture) spec() hypervisor.DomainSpec {
	f.Helper()

	vm := fmt.Sprintf("contract-%d-%d", time.Now().UnixNano()%1_000_000, sequence.Add(1))
	spec := hypervisor.DomainSpec{
		Name: vm, VM: vm, UUID: hypervisor.DomainUUID(f.h.Gateway, vm), Revision: 1, Description: "a domain of the contract",
		CPUs: 1, Memory: 64 * resources.MiB, Firmware: "bios", Graphics: "none",
	}

	if f.h.Prepare != nil {
		f.h.Prepare(&spec)
	}

	f.Cleanup(func() { f.remove(spec.UUID) })

	return spec
}

// remove takes a domain of ours away, whatever state it is in.
func (f *fixture) remove(uuid string) {
	f.Helper()

	d := f.h.Open(f.T)
	defer func() { require.NoError(f, d.Close()) }()

	if err := d.ForceOff(f.ctx(), uuid); err != nil {
		require.ErrorIs(f, err, hypervisor.ErrNotFound)
	}

	require.NoError(f, d.UndefineDomain(f.ctx(), uuid))
}

// ctx returns a context with the deadline of a step. It outlives the test's own, which ends before cleanups.
func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hypervisor.StepTimeout)
	f.Cleanup(cancel)

	return ctx
}

// define makes a domain that must not be there yet.
func (f *fixture) define(spec hypervisor.DomainSpec) {
	f.Helper()

	result, err := f.driver.DefineDomain(f.ctx(), spec)
	require.NoError(f, err)
	require.True(f, result.Created)
}

// start starts a domain.
func (f *fixture) start(uuid string) {
	f.Helper()
	require.NoError(f, f.driver.StartDomain(f.ctx(), uuid, false))
	require.Equal(f, resources.StateRunning, f.domain(uuid).State)
}

// domain reads a domain.
func (f *fixture) domain(uuid string) hypervisor.Domain {
	f.Helper()

	seen, err := f.driver.Domain(f.ctx(), uuid)
	require.NoError(f, err)

	return seen
}

// eventually waits until a condition holds.
func (f *fixture) eventually(holds func() bool, message string) {
	f.Helper()
	require.Eventually(f, holds, f.h.Capabilities.Patience, 10*time.Millisecond, message)
}
