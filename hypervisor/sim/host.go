package sim

import (
	"fmt"
	"path"
	"sync"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

// maxViolations bounds what a host remembers of what was done wrong to it: the first ones tell the story.
const maxViolations = 100

// Host is one simulated hypervisor. Its methods are what others than the gateway do to it: administrators, guests, fate.
type Host struct {
	name string

	mu      sync.Mutex // guards everything below
	options options
	dead    bool
	full    bool // whether the storage has no room

	domains  map[string]*domain // by UUID
	names    map[string]*domain // by name
	networks map[string]*network
	volumes  map[string]*volume
	images   map[string]*image // by the name of their file
	// files are those that others have put on the host, by path.
	files map[string]File

	drivers     map[*driver]struct{}
	subscribers map[*subscriber]struct{}
	// held is an event that is delivered after the next one.
	held *hypervisor.Event

	faults     Faults
	turns      map[string]uint64 // how often a fault was decided, by call and subject
	injected   []*injection
	calls      map[string]int64
	changes    map[string]int64
	violations []string
	recorded   uint64 // changes so far
	// file keeps the host; nil without ?state=.
	file *stateFile
}

func newHost(name string) *Host {
	return &Host{
		name:        name,
		options:     options{name: name, shutdown: defaultShutdown, capacity: resources.Capacity{CPUs: DefaultCPUs, Memory: DefaultMemory, Disk: DefaultDisk}},
		domains:     map[string]*domain{},
		names:       map[string]*domain{},
		networks:    map[string]*network{},
		volumes:     map[string]*volume{},
		images:      map[string]*image{},
		files:       map[string]File{},
		drivers:     map[*driver]struct{}{},
		subscribers: map[*subscriber]struct{}{},
		turns:       map[string]uint64{},
		calls:       map[string]int64{},
		changes:     map[string]int64{},
	}
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// DropConnections ends all connections, as a restart of the daemon does; the domains go on.
func (h *Host) DropConnections() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.dropLocked("dropped by the host")
}

func (h *Host) dropLocked(why string) {
	for d := range h.drivers {
		d.loseLocked(fmt.Errorf("%w: %s", hypervisor.ErrConnectionLost, why))
	}
}

// Kill makes the host unreachable until Revive. With off its domains lose power, as in a power cut; without, they go on
// behind a broken network.
func (h *Host) Kill(off bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.dead = true
	h.dropLocked("the host is down")

	if !off {
		return
	}

	for _, d := range h.domains {
		if d.live != nil {
			h.powerOff(d, resources.StateStopped, "unknown")
		}
	}

	h.keep(h.commit())
}

// Revive makes a killed host reachable again.
func (h *Host) Revive() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.dead = false
}

// change runs effect, which changes the host, for somebody else than a driver. What it changes is in the state file when
// change returns.
func (h *Host) change(effect func() error) error {
	h.mu.Lock()
	err := effect()
	commit := h.commit()
	h.mu.Unlock()

	return firstError(err, commit())
}

// commit returns what waits until all that was recorded so far is in the state file. It is called with the lock held,
// what it returns without, so that one write serves all who wait.
func (h *Host) commit() func() error {
	if h.file == nil {
		return func() error { return nil }
	}

	if h.file.wantsCompaction(h.objects()) {
		if err := h.file.compact(h.records()); err != nil {
			h.violate("%s", err)
		}
	}

	return h.file.committer()
}

// objects counts what a state file has at least a record of.
func (h *Host) objects() int {
	return len(h.domains) + len(h.networks) + len(h.volumes) + len(h.images)
}

// keep runs a commit whose error nobody is there to hear: the next call that changes something reports it.
func (h *Host) keep(commit func() error) {
	if err := commit(); err != nil {
		h.violate("error keeping the state: %s", err)
	}
}

func (h *Host) violate(format string, args ...any) {
	if len(h.violations) < maxViolations {
		h.violations = append(h.violations, h.name+": "+fmt.Sprintf(format, args...))
	}
}

// record notes a change for the state file, and that there was one.
func (h *Host) record(r record) {
	h.recorded++

	if h.file != nil {
		h.file.append(r)
	}
}

// volumeDir is where the volumes of the host seem to be. Paths elsewhere are taken to exist.
func (h *Host) volumeDir() string { return "/var/lib/sim/" + h.name }

func (h *Host) volumePath(name string) string { return path.Join(h.volumeDir(), name) }

// memoryInUse returns the memory of all domains that are on.
func (h *Host) memoryInUse() (sum resources.Size) {
	for _, d := range h.domains {
		if d.live != nil {
			sum += d.live.Memory
		}
	}

	return sum
}

// leaseTime is when a guest that starts now has its leases.
func (h *Host) leaseTime() time.Time { return time.Now().Add(h.options.boot) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}

	return nil
}
